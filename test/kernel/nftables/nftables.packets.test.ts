import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { KernelSettings } from '../../../src/kernel/proxier.ts'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import { type IpFamily, ipFamilies } from '../../../src/util/ip.ts'
import { clusterIp } from '../../support/service-ports.ts'
import {
  addressOf,
  backendPort,
  type HostName,
  podCidrs,
} from '../../support/net/addresses.ts'
import { startAgents } from '../../support/net/cluster-agents.ts'
import { makeClusterNet } from '../../support/net/cluster-net.ts'
import type { Destination } from '../../support/net/outcome.ts'
import { situationsOf } from './situations.ts'
import { makeWorld, manyServices, serviceOf, skip, snapshotOf } from './world.ts'

const backends = ['backend-1', 'backend-2', 'backend-3'] as const

/** The first is balanced by chance, the second remembers its clients. */
const vips = {
  IPv4: {
    plain: '10.96.9.1',
    sticky: '10.96.9.2',
    unused: '10.96.9.9',
    range: '10.96.0.0/16',
  },
  IPv6: { plain: 'fd96::1', sticky: 'fd96::2', unused: 'fd96::9', range: 'fd96::/112' },
} as const

const serving = (
  name: string,
  family: IpFamily,
  address: string,
  over: Partial<ServicePort> & { readonly by?: readonly HostName[] } = {},
): ServicePort => {
  const { by = backends, ...rest } = over
  const { endpoints: found } = serviceOf(
    name,
    [],
    by.map(host => addressOf[host][family]),
  )
  const endpoints = found.map(endpoint =>
    Object.assign({}, endpoint, { port: backendPort }),
  )
  const target = { verdict: 'forward', endpoints } as const
  return serviceOf(name, [clusterIp(address)], [], {
    family,
    endpoints,
    internal: target,
    external: target,
    externalFromNode: target,
    reachable: endpoints,
    ...rest,
  })
}

const settingsOf = (family: IpFamily): KernelSettings => {
  const plain = situationsOf(family)['nothing is known']?.settings
  if (plain === undefined) throw new Error('no settings')
  const localDetector = { by: 'source', cidrs: [podCidrs[family]] } as const
  return { ...plain, localDetector, serviceCidrs: [vips[family].range] }
}

const makeNode = async (family: IpFamily) => {
  const net = await makeClusterNet('nft-packets')
  const agents = await startAgents(t, net)
  const world = await makeWorld({ family, run: net.node.run })
  return { ...world, agents, settings: settingsOf(family) }
}

for (const family of ipFamilies)
  t.test(`${family}: who answers whom`, { skip }, async t => {
    const { plain, sticky, unused } = vips[family]
    const { agents, settings, proxier, clock } = await makeNode(family)
    const to = (address: string, port = 80): Destination => ({
      protocol: 'TCP',
      address,
      port,
    })
    const askedBy = async (from: HostName, address: string, times: number) => {
      const heard: Record<string, number> = {}
      for (let i = 0; i < times; i++) {
        const { result, backend } = await agents[from].dial(to(address), 5000)
        const who = backend === '' ? result : backend
        heard[who] = (heard[who] ?? 0) + 1
      }
      return heard
    }
    const rest = family === 'IPv4' ? manyServices(1000) : []
    const short = serving('sticky', family, sticky, { affinityMs: 2000 })
    const long = { ...short, affinityMs: 3_600_000 }
    const snapshot = (one: ServicePort) =>
      snapshotOf([...rest, serving('plain', family, plain), one], family)
    const first = proxier()
    await first.sync(snapshot(long), settings)

    await t.test('all endpoints alike', async t => {
      const heard = await askedBy('pod-1', plain, 240)
      t.same(Object.keys(heard).toSorted(), backends)
      // Beyond six standard deviations.
      for (const count of Object.values(heard))
        t.ok(count > 35 && count < 125, `${count}`)
    })

    await t.test('affinity outlives all but the endpoint and its time', async t => {
      const [chosen = ''] = Object.keys(await askedBy('pod-2', sticky, 1))
      const others = backends.filter(name => name !== chosen)
      const holds = async (when: string) =>
        t.same(await askedBy('pod-2', sticky, 8), { [chosen]: 8 }, when)
      await holds('at first')
      first.forget()
      await first.sync(snapshot(long), settings)
      await holds('after a full sync')
      const next = proxier()
      await next.sync(snapshot(long), settings)
      await holds('after a restart')
      await next.sync(snapshot(long), { ...settings, masqueradeAll: true })
      await holds('with other settings')
      const by = [chosen as HostName, others[0] ?? 'node'] as const
      await next.sync(
        snapshot(serving('sticky', family, sticky, { affinityMs: 3_600_000, by })),
        settings,
      )
      await holds('when another endpoint has gone')
      clock.advance(10_000)
      await next.sync(snapshot({ ...long }), settings)
      await holds('when it has come again')
      await next.sync(
        snapshot(
          serving('sticky', family, sticky, { affinityMs: 3_600_000, by: others }),
        ),
        settings,
      )
      const heard = await askedBy('pod-2', sticky, 3)
      t.notOk(chosen in heard, 'not to one that has gone')
      t.equal(Object.keys(heard).length, 1)
      await next.sync(snapshot(short), settings)
      const all = new Set<string>()
      for (let i = 0; i < 40 && all.size < 2; i++) {
        for (const who of Object.keys(await askedBy('pod-2', sticky, 2))) all.add(who)
        if (i === 0) t.equal(all.size, 1, 'remembered for a while')
        await sleep(2300)
      }
      t.equal(all.size, 2, 'and no longer')
    })

    await t.test('what nobody has is refused, or dropped', async t => {
      await proxier().sync(snapshot(long), settings)
      for (const from of ['pod-1', 'node', 'outside'] as const) {
        const meets = async (protocol: 'TCP' | 'UDP', address: string, port: number) =>
          (await agents[from].dial({ protocol, address, port }, 1500)).result
        t.equal(await meets('TCP', plain, 81), 'refused', `TCP from ${from}`)
        t.equal(await meets('UDP', plain, 80), 'refused', `UDP from ${from}`)
        const silence = await Promise.all([
          meets('TCP', unused, 80),
          meets('UDP', unused, 80),
        ])
        // The node is told by its own kernel that it does not let it out.
        for (const one of silence) t.match(one, /timeout|blocked/, from)
      }
    })
  })

t.test('nobody meets a gap while tables are written', { skip }, async t => {
  const { agents, settings, proxier, told } = await makeNode('IPv4')
  const { plain, sticky } = vips.IPv4
  const mine = [
    serving('plain', 'IPv4', plain),
    serving('sticky', 'IPv4', sticky, { affinityMs: 60_000 }),
  ]
  const snapshot = snapshotOf([...manyServices(1000), ...mine])
  let last = proxier()
  await last.sync(snapshot, settings)
  const to = [plain, sticky].flatMap(address =>
    Array.from({ length: 10 }, () => ({ protocol: 'TCP', address, port: 80 }) as const),
  )
  const loads = await Promise.all(
    (['pod-1', 'outside', 'node'] as const).map(from => agents[from].load(to, 2500)),
  )
  for (let i = 0; i < 12; i++) {
    // By turns the next process, and one that has to write all again.
    if (i % 2 === 0) last = proxier()
    else last.forget()
    t.same(await last.sync(snapshot, settings), { work: 'full' })
    await last.sync(snapshotOf([...manyServices(1000, 81), ...mine]), settings)
  }
  const reports = await Promise.all(loads.map(end => end()))
  for (const { counts, failures } of reports) {
    t.same(failures, [])
    t.ok((counts.answer ?? 0) > 50, `${counts.answer} answers`)
  }
  t.same(told, [])
})
