import type { Test } from 'tap'
import { nodeAddresses } from '../../../support/net/addresses.ts'
import type { Agents } from '../../../support/net/cluster-agents.ts'
import { affinityHolds } from './affinity.ts'
import { matrix, tryCells } from './cells.ts'
import { doorsAreClosed } from './doors.ts'
import { healthIsTold, nodePortsAreRestricted, restrictions } from './node-ports.ts'
import { objectsOf } from './objects.ts'
import type { Manner } from './oracle.ts'
import { addressTable, faultLines, lostDatagrams, resultTable } from './report.ts'
import { serviceNamed } from './services.ts'
import { udpFlowsFollow } from './udp-flows.ts'
import { type CaptureRequest, makeStage } from './stage.ts'

export interface MatrixRequest extends CaptureRequest {
  readonly manner: Manner
}

/** All that clients may meet with one capture, on a cluster of its own. */
export const captureMatrix = async (t: Test, request: MatrixRequest): Promise<void> => {
  const { capture, manner, label = capture } = request
  const stage = await makeStage(t, request)
  const { agents } = stage
  const usher = stage.start()
  await usher.ready()
  await t.test('the matrix', t => everyCell(t, agents, label, manner))
  await t.test('affinity holds across VIPs', t => affinityHolds(t, agents))
  await t.test('load balancers hear of health', t => healthIsTold(t, stage))
  if (manner === 'rules')
    await t.test('proxy ports are no side door', t => doorsAreClosed(t, agents, usher))
  await t.test('UDP flows follow their Service', t => udpFlowsFollow(t, stage, manner))
  await t.test('rules of others are as they were', async t => {
    t.equal((await stage.now()).theirs, stage.before.theirs)
  })
  await t.test('an exit leaves nothing', async t => {
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    t.equal((await stage.now()).all, stage.before.all)
  })
  await stage.manifests.write(...objectsOf([serviceNamed('plain')]))
  await t.test('node ports on some addresses', async t => {
    for (const restriction of restrictions) {
      const restricted = stage.start(`--nodeport-addresses=${restriction.flag}`)
      await restricted.ready()
      await nodePortsAreRestricted(t, stage, restriction)
      restricted.send('SIGTERM')
      await restricted.exit
    }
  })
}

const everyCell = async (
  t: Test,
  agents: Agents,
  label: string,
  manner: Manner,
): Promise<void> => {
  const began = performance.now()
  const tried = await tryCells(matrix, agents, manner)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  const faults = faultLines(label, tried)
  const table = [
    ...resultTable(label, tried),
    ...addressTable(tried),
    lostDatagrams(tried),
  ]
  t.comment([...table, `in ${seconds} s`, ...faults].join('\n'))
  t.equal(faults.length, 0, 'every cell is as it must be')
  const seen = new Set(tried.map(({ outcome }) => outcome.seen).filter(Boolean))
  const strangers = [...seen].filter(address => !nodeAddresses.has(address))
  t.strictSame(strangers, [], 'backends see the node alone')
}
