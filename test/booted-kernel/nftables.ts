import type { Test } from 'tap'
import { addressOf } from '../support/net/addresses.ts'
import type { Agents } from '../support/net/cluster-agents.ts'
import { until } from '../support/until.ts'
import { serviceNamed } from '../e2e/capture/services.ts'
import { vipOf } from '../e2e/capture/vips.ts'
import type { Machine } from './machine.ts'
import { nodeState } from './node-state.ts'
import { allAreServed, fewServices } from './serves.ts'
import { askUsher, runUsher, writeServices } from './usher.ts'

const flags = [
  '--proxy-mode=nftables',
  '--nodeport-addresses=all',
  '--nftables-flowtable-devices=pod-1,backend-1,backend-2,far',
]

const patienceMs = 120_000

/** By a kernel before 6.2, which lets go of a chain only some time after its last element. */
export const nftablesSuite = async (
  t: Test,
  machine: Machine,
  agents: Agents,
): Promise<void> => {
  const before = await nodeState(machine)
  const usher = await runUsher(machine, ...flags)
  t.equal(usher.mode, 'nftables')
  await allAreServed(t, agents, 'nftables')
  await t.test('a connection that stands is forwarded by the flowtable', async t => {
    const at = {
      protocol: 'TCP',
      ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv4'),
    } as const
    const { ask } = await agents['pod-1'].open(at)
    const answer = await ask()
    t.match(answer, /^backend-/)
    const flow = new RegExp(
      `src=${addressOf['pod-1'].IPv4} .*dst=${at.address} .*OFFLOAD`,
    )
    const isOffloaded = async (): Promise<boolean> => {
      t.equal(await ask(), answer)
      return flow.test(await machine.run('conntrack', '--dump', '-p', 'tcp'))
    }
    await until('it is', isOffloaded, patienceMs)
  })
  await t.test('Services go and come again', async t => {
    // Each family is written by a program of its own.
    const hasElements = async (family: string): Promise<boolean> =>
      /elements/.test(
        await machine.run('nft', 'list', 'map', family, 'usher-services', 'service-ips'),
      )
    for (const services of [[], fewServices, fewServices.slice(0, 1), [], fewServices]) {
      await writeServices(machine, services)
      const wanted = services.length > 0
      const isThere = async (): Promise<boolean> =>
        (await hasElements('ip')) === wanted && (await hasElements('ip6')) === wanted
      await until(`${services.length} are there`, isThere, patienceMs)
    }
    await allAreServed(t, agents, 'nftables')
  })
  const { code, text } = await usher.end()
  t.equal(code, 0)
  t.notMatch(text, /sync failed|flowtable/)
  const cleanup = await askUsher(machine, 'cleanup')
  t.comment(cleanup.out, cleanup.err)
  t.equal(await nodeState(machine), before, 'nothing is left')
}
