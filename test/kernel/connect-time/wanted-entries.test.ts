import t from 'tap'
import { compileNodeAddress } from '../../../src/kernel/connect-time/tables.ts'
import { WantedEntries } from '../../../src/kernel/connect-time/connect-time.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { snapshotOf } from '../nftables/world.ts'
import { serviceTo, type To } from './world.ts'

const plenty = { members: 100, slots: 100, services: 100 }

const to = (count: number): To =>
  Array.from({ length: count }, (_, i) => [`10.244.0.${i + 1}`, 8080] as const)
const web = (n: number, endpoints = 2) =>
  serviceTo(`web-${n}`, [clusterIp(`10.96.0.${n}`)], to(endpoints))

const countOf = async (
  wanted: WantedEntries,
  services: readonly ReturnType<typeof web>[],
  nodeAddresses: readonly string[] = [],
) => {
  const others = nodeAddresses.map(compileNodeAddress)
  const { changes, left } = await wanted.take([snapshotOf(services)], others)
  const counts = [...changes.sets].flatMap(([set, each]) =>
    [...each.values()].flatMap(({ gone, come }) =>
      gone === come
        ? []
        : [`${set} ${gone === undefined ? '+' : come === undefined ? '-' : '~'}`],
    ),
  )
  const sums: Record<string, number> = {}
  for (const each of counts) sums[each] = (sums[each] ?? 0) + 1
  return [sums, left.map(({ serviceName }) => serviceName)]
}

t.test('what changed is entered, and nothing else', async t => {
  const wanted = new WantedEntries(plenty)
  const [a, b, c] = [web(1), web(2), web(3)]
  t.same(await countOf(wanted, [a, b, c]), [{ 'services +': 3, 'slots +': 6 }, []])
  t.same(await countOf(wanted, [a, b, c]), [{}, []])
  const moved = web(2, 3)
  const change = { 'services ~': 1, 'slots +': 3, 'slots -': 2 }
  t.same(await countOf(wanted, [a, moved, c]), [change, []])
  t.same(await countOf(wanted, [a, web(2, 3), c]), [{}, []], 'the same once more')
  t.same(await countOf(wanted, [c]), [{ 'services -': 2, 'slots -': 5 }, []])
})

t.test('addresses of the node come and go', async t => {
  const wanted = new WantedEntries(plenty)
  const [a, b] = ['192.0.2.1', '127.0.0.1']
  t.same(await countOf(wanted, [], [a, b]), [{ 'addresses +': 2 }, []])
  t.same(await countOf(wanted, [], [a, b]), [{}, []])
  const moved = { 'addresses +': 1, 'addresses -': 1 }
  t.same(await countOf(wanted, [], [b, '192.0.2.2']), [moved, []])
})

t.test('those for which there is no room are left, until there is', async t => {
  const wanted = new WantedEntries({ ...plenty, slots: 4 })
  const [a, b, c] = [web(1), web(2), web(3)]
  t.same(await countOf(wanted, [a, b, c]), [{ 'services +': 2, 'slots +': 4 }, ['web-3']])
  t.same(await countOf(wanted, [a, b, c]), [{}, ['web-3']])
  const more = { 'services -': 1, 'services +': 1, 'slots -': 2, 'slots +': 2 }
  t.same(await countOf(wanted, [a, c]), [more, []])
  const grown = { 'services -': 1, 'slots -': 2 }
  t.same(await countOf(wanted, [a, web(3, 3)]), [grown, ['web-3']], 'of one that grew')
  t.same(await countOf(wanted, [a, web(3, 1)]), [{ 'services +': 1, 'slots +': 1 }, []])
})

t.test('members are remembered where clients are', async t => {
  const wanted = new WantedEntries(plenty)
  const sticky = serviceTo('sticky', [clusterIp('10.96.0.1')], to(3), { affinityMs: 500 })
  const dns = serviceTo('dns', [clusterIp('10.96.0.2')], to(2), { protocol: 'UDP' })
  t.same(await countOf(wanted, [sticky, dns]), [
    { 'services +': 2, 'slots +': 5, 'members +': 5 },
    [],
  ])
})
