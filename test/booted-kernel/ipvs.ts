import type { Test } from 'tap'
import { matrix } from '../e2e/capture/cells.ts'
import { healthIsTold } from '../e2e/capture/node-ports.ts'
import type { Cell } from '../e2e/capture/oracle-terms.ts'
import { serviceNamed, services } from '../e2e/capture/services.ts'
import { vipOf } from '../e2e/capture/vips.ts'
import { families, protocols } from '../e2e/capture/objects.ts'
import type { Agents } from '../support/net/cluster-agents.ts'
import { inParallel } from '../support/net/in-parallel.ts'
import type { Machine } from './machine.ts'
import { whatIsExplainedIsThere } from './ipvs-explained.ts'
import { endsGracefully } from './ipvs-removal.ts'
import { schedulersSpread } from './ipvs-schedulers.ts'
import { nodeState } from './node-state.ts'
import { allAreServed } from './serves.ts'
import { askUsher, runUsher, writeServices } from './usher.ts'

/** All of IPv4; IPv6 has sets and rules of its own, but of the same making. */
const someOfIPv6 = new Set(['plain', 'external-local', 'for-pods', 'loner'])

const cells: readonly Cell[] = matrix.filter(
  ({ family, service }) => family === 'IPv4' || someOfIPv6.has(service.name),
)

/** ipvs mode on a machine that has all that it needs, and no Usher running. */
export const ipvsSuite = async (
  t: Test,
  machine: Machine,
  agents: Agents,
): Promise<void> => {
  const before = await nodeState(machine)
  await writeServices(machine, services)
  const usher = await runUsher(machine, '--proxy-mode=ipvs', '--ipvs-scheduler=wrr')
  t.equal(usher.mode, 'ipvs')
  t.match(await machine.run('ipvsadm', '-S', '-n'), / -s wrr/, 'by the flag')
  const during = await nodeState(machine)
  await t.test('clients while endpoints come and go', { jobs: 2 }, async t => {
    await Promise.all([
      t.test('endpoints end gracefully', t => endsGracefully(t, machine, agents)),
      t.test('others do not feel it', async t => {
        await t.test('the matrix', t => allAreServed(t, agents, 'ipvs', cells))
        await t.test('load balancers hear of health', t => healthIsTold(t, { agents }))
        await t.test('one client stays with one endpoint', t => affinityHolds(t, agents))
      }),
    ])
    t.equal(await nodeState(machine), during, 'nothing is left of who came and went')
  })
  await t.test('what is explained is there', t =>
    whatIsExplainedIsThere(t, machine, agents),
  )
  await t.test('what is in the kernel serves on', async t => {
    t.match(await usher.end(), { code: 0 })
    t.equal(await nodeState(machine), during)
    await allAreServed(t, agents, 'ipvs', ofPlain)
  })
  await writeServices(machine, [serviceNamed('plain')])
  await t.test('schedulers spread', t => schedulersSpread(t, machine, agents))
  await t.test('usher cleanup leaves the node as it was', async t => {
    const { code, out, err } = await askUsher(machine, 'cleanup')
    t.comment(out, err)
    t.equal(code, 0)
    t.equal(await nodeState(machine), before)
  })
}

const ofPlain = cells.filter(
  ({ service, vip }) => service.name === 'plain' && vip !== 'unknown port',
)

const rounds = 4

/** By each VIP apart: persistence is a virtual server's, and each VIP is one. */
const affinityHolds = async (t: Test, agents: Agents): Promise<void> => {
  const sticky = serviceNamed('sticky')
  const cases = (['pod-1', 'outside'] as const).flatMap(from =>
    families.flatMap(family => protocols.map(protocol => ({ from, family, protocol }))),
  )
  await inParallel(cases.length, cases, async ({ from, family, protocol }) => {
    const to = { protocol, ...vipOf.ClusterIP(sticky, family) }
    const answers = new Set<string>()
    for (let round = 0; round < rounds; round += 1)
      answers.add((await agents[from].dial(to, 20_000)).backend)
    t.match([...answers], [/^backend-/], `${from}, ${family} ${protocol}`)
    t.equal(answers.size, 1, `${[...answers].join(', ')} answers alone`)
  })
}
