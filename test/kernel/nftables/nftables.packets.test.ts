import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { KernelSettings } from '../../../src/kernel/proxier.ts'
import { proxyAddressOf } from '../../../src/kernel/proxy-address.ts'
import type { ServicePort, Vip } from '../../../src/model/snapshot.ts'
import { type IpFamily, ipFamilies, wildcardOf } from '../../../src/util/ip.ts'
import { clusterIp } from '../../support/service-ports.ts'
import {
  addressOf,
  backendPort,
  type HostName,
  loopback,
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
    refused: '10.96.9.3',
    external: '192.0.2.77',
    unused: '10.96.9.9',
    range: '10.96.0.0/16',
  },
  IPv6: {
    plain: 'fd96::1',
    sticky: 'fd96::2',
    refused: 'fd96::3',
    external: '2001:db8:77::1',
    unused: 'fd96::9',
    range: 'fd96::/112',
  },
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

/** A VIP that no policy spares anybody of, at the relay's proxy port. */
const steered = (
  name: string,
  family: IpFamily,
  vip: Vip,
  over: Partial<ServicePort> = {},
): ServicePort => {
  const target = { verdict: 'forward', endpoints: [] } as const
  return serviceOf(name, [vip], [], {
    family,
    internal: target,
    external: target,
    externalFromNode: target,
    steeredTo: [{ address: proxyAddressOf[family], port: 40_001 }],
    ...over,
  })
}

for (const family of ipFamilies)
  t.test(`${family}: the relay is an endpoint beside others`, { skip }, async t => {
    const { agents, settings, proxier, run, clock } = await makeNode(family)
    const { plain, sticky, external, refused } = vips[family]
    const [proxy, node] = [proxyAddressOf[family], addressOf.node[family]]
    const ip = family === 'IPv4' ? '-4' : '-6'
    await run('ip', [ip, 'addr', 'add', proxy, 'dev', 'lo'])
    await agents.node.serve('relay', [proxy], 40_001)
    // A proxy port may have the number of a node port.
    await agents.node.serve('relay', [proxy], 30_081)
    await agents.node.serve('stranger', [node, loopback[family]], 30_080)
    const [drop, reject] = (['drop', 'reject'] as const).map(verdict => ({
      verdict,
      endpoints: [],
    }))
    if (drop === undefined || reject === undefined) throw new Error('no targets')
    const any = wildcardOf(family)
    const policy = { externalTrafficPolicy: 'Local', external: drop } as const
    const ofKind = (kind: Vip['kind'], address: string, port: number): Vip => {
      return { kind, address, port }
    }
    const none = { internal: reject, external: reject, externalFromNode: reject }
    const relayed = steered('relayed', family, clusterIp(plain))
    const all = [
      relayed,
      serving('plain', family, sticky),
      steered('near', family, ofKind('ExternalIP', external, 80), policy),
      steered('refused', family, clusterIp(refused), none),
      steered('ports', family, ofKind('NodePort', any, 30_080)),
      steered('near-ports', family, ofKind('NodePort', any, 30_082), policy),
      steered('no-ports', family, ofKind('NodePort', any, 30_081), none),
      steered('shared-number', family, clusterIp(refused, 81), {
        steeredTo: [{ address: proxy, port: 30_081 }],
      }),
      steered('ports on loopback', family, ofKind('NodePort', loopback[family], 30_083)),
    ]
    const relay = { serves: 'beside endpoints', nodePods: [podCidrs[family]] } as const
    const one = proxier()
    // As by default: node ports are on the primary address, and those of loopback VIPs of their own.
    const nodePortCidrs = [`${node}/${family === 'IPv4' ? 32 : 128}`]
    const beside = { ...settings, nodePortCidrs, relay }
    await one.sync(snapshotOf(all, family), beside)
    const askedBy = async (from: HostName, address: string, port: number) => {
      const to = { protocol: 'TCP', address, port } as const
      const { result, backend } = await agents[from].dial(to, 1500)
      return backend === '' ? result : backend
    }
    const rows = [
      ['a ClusterIP', plain, 80, 'relay', 'relay', 'relay'],
      ['no endpoints', refused, 80, 'refused', 'refused', 'refused'],
      [
        'a port that has the number of a node port',
        refused,
        81,
        'relay',
        'relay',
        'relay',
      ],
      ['spared by policy Local', external, 80, 'relay', 'relay', 'timeout'],
      ['a node port', node, 30_080, 'relay', 'relay', 'relay'],
      ['a node port, policy Local', node, 30_082, 'relay', 'relay', 'timeout'],
      ['a node port that refuses', node, 30_081, 'refused', 'refused', 'refused'],
    ] as const
    for (const [what, address, port, ...wanted] of rows)
      for (const [i, from] of (['node', 'pod-1', 'outside'] as const).entries()) {
        const heard = await askedBy(from, address, port)
        t.equal(heard, wanted[i], `${what}, from ${from}`)
      }
    t.equal(await askedBy('node', loopback[family], 30_083), 'relay', 'on loopback')
    t.equal(
      await askedBy('node', loopback[family], 30_080),
      'stranger',
      'not on loopback',
    )
    const heard = await askedBy('pod-1', sticky, 80)
    t.ok((backends as readonly string[]).includes(heard), 'others go to endpoints')
    await t.test('a Service changes sides in one transaction', async t => {
      const to = { protocol: 'TCP', address: plain, port: 80 } as const
      const loads = await Promise.all(
        (['pod-1', 'outside', 'node'] as const).map(from =>
          agents[from].load([to, to, to], 2500),
        ),
      )
      const others = all.slice(1)
      const led = serving('relayed', family, plain)
      for (let i = 0; i < 10; i++) {
        clock.advance(10_000)
        const side = i % 2 === 0 ? led : relayed
        const { work } = await one.sync(snapshotOf([side, ...others], family), beside)
        t.equal(work, 'partial')
      }
      for (const { failures } of await Promise.all(loads.map(end => end())))
        t.same(failures, [])
      t.equal(await askedBy('pod-1', plain, 80), 'relay')
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
