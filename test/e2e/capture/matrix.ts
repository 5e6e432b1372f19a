import type { Test } from 'tap'
import type { Agents } from '../../support/net/cluster-agents.ts'
import { affinityHolds } from './affinity.ts'
import { matrix, tryCells } from './cells.ts'
import { doorsAreClosed } from './doors.ts'
import { exitLeavesNothing, exitLeavesRules } from './exit.ts'
import {
  healthIsRestricted,
  healthIsTold,
  nodePortsAreRestricted,
  restrictions,
} from './node-ports.ts'
import { families, objectsOf, protocols } from './objects.ts'
import { addressTable, faultLines, lostDatagrams, resultTable } from './report.ts'
import { serviceNamed } from './services.ts'
import { udpFlowsFollow } from './udp-flows.ts'
import { makeStage, type Stage } from './stage.ts'
import { vipOf } from './vips.ts'
import { allNodePorts, isOfKernel, type Way } from './ways.ts'

/** All that clients may meet one way, on a cluster of its own. */
export const captureMatrix = async (t: Test, way: Way): Promise<void> => {
  const { manner } = way
  const stage = await makeStage(t, way)
  const { agents } = stage
  const usher = stage.start(...allNodePorts(way))
  await usher.ready()
  await t.test('the matrix', t => everyCell(t, agents, way))
  if (!isOfKernel(way))
    await t.test('pods of other nodes are clients from outside', t =>
      othersAreOutside(t, agents),
    )
  await t.test('affinity holds across VIPs', t => affinityHolds(t, agents))
  await t.test('load balancers hear of health', t => healthIsTold(t, stage))
  if (manner === 'rules')
    await t.test('proxy ports are no side door', t => doorsAreClosed(t, agents, usher))
  await t.test('UDP flows follow their Service', t => udpFlowsFollow(t, stage, manner))
  await t.test('rules of others are as they were', async t => {
    t.equal((await stage.now()).theirs, stage.before.theirs)
  })
  if (isOfKernel(way))
    await t.test('what is in the kernel serves on', t =>
      exitLeavesRules(t, stage, usher, way),
    )
  else
    await t.test('an exit leaves nothing', t => exitLeavesNothing(t, stage, usher, way))
  await stage.manifests.write(
    ...objectsOf([serviceNamed('plain'), serviceNamed('external-local')]),
  )
  await t.test('node ports on some addresses', async t => {
    for (const restriction of restrictions) {
      const restricted = stage.start(`--nodeport-addresses=${restriction.flag}`)
      await restricted.ready()
      await nodePortsAreRestricted(t, stage, restriction, manner)
      await healthIsRestricted(t, stage, restriction)
      restricted.send('SIGTERM')
      await restricted.exit
    }
  })
  if (isOfKernel(way))
    await t.test('usher cleanup leaves the node as it was', async t => {
      t.comment(await stage.cleanUp())
      t.strictSame(await stage.now(), stage.before)
    })
}

/** To them policy Local applies: asked often enough to meet both endpoints, if it did not. */
const othersAreOutside = async (t: Test, agents: Agents): Promise<void> => {
  for (const family of families)
    for (const protocol of protocols) {
      const to = vipOf['node port, first address'](serviceNamed('external-local'), family)
      const dial = () => agents['backend-3'].dial({ protocol, ...to }, 5000)
      const met = await Promise.all(Array.from({ length: 6 }, dial))
      t.strictSame(
        new Set(met.map(each => (each.result === 'answer' ? each.backend : each.result))),
        new Set(['backend-2']),
        `${family} ${protocol}`,
      )
    }
}

/**
 * The matrix alone, and the end: for the other tool of iptables, which is given the same
 * lines, and differs in how the kernel carries them out.
 */
export const captureCells = async (
  t: Test,
  way: Way,
  prepare: (stage: Stage) => Promise<void> = async () => {},
): Promise<void> => {
  const stage = await makeStage(t, way)
  await prepare(stage)
  const usher = stage.start(...allNodePorts(way))
  await usher.ready()
  await t.test('the matrix', t => everyCell(t, stage.agents, way))
  await t.test('an exit and a cleanup leave nothing', async t => {
    if (!isOfKernel(way)) return exitLeavesNothing(t, stage, usher, way)
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    await stage.cleanUp()
    t.strictSame(await stage.now(), stage.before)
  })
}

const everyCell = async (
  t: Test,
  agents: Agents,
  { label, manner }: Way,
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
}
