import t from 'tap'
import type { ServicePort, Target, VipKind } from '../../../src/model/snapshot.ts'
import { servicePort } from '../../support/service-ports.ts'
import { everywhere, fixture, forward, settings, snapshotOf } from './fixture.ts'

const drop: Target = { verdict: 'drop', endpoints: [] }

const vip = (kind: VipKind, address: string, port = 80) => ({ kind, address, port })
const vips = [
  vip('ClusterIP', '10.96.0.1'),
  vip('ExternalIP', '192.0.2.1'),
  vip('LoadBalancerIP', '192.0.2.2'),
  vip('NodePort', '0.0.0.0', 30080),
]

/** The sets that say something of a ServicePort with a VIP of each kind. */
const setsOf = async (
  over: Partial<ServicePort>,
): Promise<Readonly<Record<string, readonly string[]>>> => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([servicePort('web', { vips, ...over })]), settings)
  const all = Array.from(
    kernel.sets,
    ([name, { entries }]) => [name, [...entries]] as const,
  )
  return Object.fromEntries(
    all.filter(([name, { length }]) => length > 0 && !/LOOP-BACK|IPVS-IPS/.test(name)),
  )
}

const [cluster, external, balancer, node] = [
  '10.96.0.1,tcp:80',
  '192.0.2.1,tcp:80',
  '192.0.2.2,tcp:80',
  '203.0.113.1,tcp:30080',
]

t.test('with externalTrafficPolicy Cluster', async t => {
  t.strictSame(await setsOf(everywhere(forward('10.244.1.1'))), {
    'KUBE-CLUSTER-IP': [cluster],
    'KUBE-EXTERNAL-IP': [external],
    'KUBE-LOAD-BALANCER': [balancer],
    'KUBE-NODE-PORT-TCP': ['30080'],
  })
})

t.test(
  'with externalTrafficPolicy Local, whose clients keep their addresses',
  async t => {
    const local = {
      ...everywhere(forward('10.244.1.1')),
      externalTrafficPolicy: 'Local',
    } as const
    t.strictSame(await setsOf(local), {
      'KUBE-LOAD-BALANCER-LOCAL': [balancer],
      'KUBE-NODE-PORT-LOCAL-TCP': ['30080'],
      'KUBE-EXTERNAL-IP-LOCAL': [external],
      'KUBE-CLUSTER-IP': [cluster],
      'KUBE-LOAD-BALANCER': [balancer],
      'KUBE-NODE-PORT-TCP': ['30080'],
    })
  },
)

t.test(
  'without local endpoints outside clients are dropped, and others served',
  async t => {
    const servicePorts = [
      servicePort('web', {
        vips,
        ...everywhere(forward('10.244.1.1')),
        externalTrafficPolicy: 'Local',
        external: drop,
      }),
    ]
    const { kernel, proxier } = fixture()
    await proxier.sync(snapshotOf(servicePorts), settings)
    t.strictSame(kernel.entries('KUBE-EXTERNAL-DROP'), [external, balancer, node])
    t.strictSame(kernel.destinations('-t 192.0.2.1:80'), { '10.244.1.1:8080': 1 })
    const rules = kernel.rules.chain('filter', 'KUBE-IPVS-FILTER')
    const spared = rules.findIndex(rule =>
      /^-s 10\.244.*EXTERNAL-DROP.*RETURN$/.test(rule),
    )
    const dropped = rules.findIndex(rule => /EXTERNAL-DROP.*DROP$/.test(rule))
    t.ok(spared >= 0 && spared < dropped, 'pods of this node are spared')
  },
)

t.test('internalTrafficPolicy Local without local endpoints is silent', async t => {
  const sets = await setsOf({ ...everywhere(forward('10.244.1.1')), internal: drop })
  t.strictSame(sets['KUBE-CLUSTER-IP-DROP'], [cluster])
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([]), settings)
  for (const [table, chain] of [
    ['filter', 'KUBE-IPVS-FILTER'],
    ['mangle', 'KUBE-IPVS-OUT-FILTER'],
  ] as const)
    t.match(kernel.rules.chain(table, chain)[0], /KUBE-CLUSTER-IP-DROP dst,dst -j DROP$/)
})

t.test('a route is internal, as a ClusterIP is', async t => {
  const { kernel, proxier } = fixture()
  const route = servicePort('web', {
    vips: [vip('Route', '127.0.0.1')],
    ...everywhere(forward('10.244.1.1')),
    internal: forward('10.244.1.2'),
  })
  await proxier.sync(snapshotOf([route]), settings)
  t.strictSame(kernel.destinations('-t 127.0.0.1:80'), { '10.244.1.2:8080': 1 })
})

t.test('SCTP has servers, and entries with its name', async t => {
  const { kernel, proxier } = fixture()
  const sip = servicePort('sip', {
    protocol: 'SCTP',
    vips,
    externalTrafficPolicy: 'Local',
    ...everywhere(forward('10.244.1.1')),
  })
  await proxier.sync(snapshotOf([sip]), settings)
  const id = '--sctp-service 10.96.0.1:80'
  t.strictSame(kernel.destinations(id), { '10.244.1.1:8080': 1 })
  t.strictSame(kernel.entries('KUBE-CLUSTER-IP'), ['10.96.0.1,sctp:80'])
  for (const set of ['KUBE-NODE-PORT-SCTP-HASH', 'KUBE-NODE-PORT-LOCAL-SCTP-HASH'])
    t.strictSame(kernel.entries(set), ['203.0.113.1,sctp:30080'])
  proxier.forget()
  kernel.takeWritten()
  await proxier.sync(snapshotOf([sip]), settings)
  t.notMatch(kernel.takeWritten().join('\n'), /sctp:|sctp-service/, 'as it was read')
  await proxier.sync(snapshotOf([]), settings)
  t.notOk(kernel.servers.has(id))
})

t.test('source ranges hold for load-balancer IPs', async t => {
  const sourceRanges = ['198.51.100.0/24', '198.51.100.7/32', '192.0.2.2/32']
  const sets = await setsOf({ ...everywhere(forward('10.244.1.1')), sourceRanges })
  t.strictSame(sets['KUBE-LOAD-BALANCER-FW'], [balancer])
  t.strictSame(sets['KUBE-LOAD-BALANCER-SOURCE-CIDR'], [
    `${balancer},198.51.100.0/24`,
    `${balancer},198.51.100.7`,
  ])
  t.strictSame(sets['KUBE-LOAD-BALANCER-SOURCE-IP'], [`${balancer},192.0.2.2`])
})

t.test('no source ranges at all let nobody in', async t => {
  const sets = await setsOf({ ...everywhere(forward('10.244.1.1')), sourceRanges: [] })
  t.strictSame(sets['KUBE-LOAD-BALANCER-FW'], [balancer])
  t.notHas(sets, { 'KUBE-LOAD-BALANCER-SOURCE-CIDR': [] })
})

t.test('every endpoint is known for hairpins, once', async t => {
  const { kernel, proxier } = fixture()
  const servicePorts = [
    servicePort('web', { vips, ...everywhere(forward('10.244.1.1')) }),
  ]
  await proxier.sync(snapshotOf(servicePorts), settings)
  t.strictSame(kernel.entries('KUBE-LOOP-BACK'), ['10.244.1.1,tcp:8080,10.244.1.1'])
})

t.test('IPv6 has sets, addresses and words of its own', async t => {
  const { kernel, proxier } = fixture({}, undefined, 'IPv6')
  const web = servicePort('web', {
    family: 'IPv6',
    vips: [vip('ClusterIP', 'fd00:96::1')],
    sourceRanges: undefined,
    ...everywhere(forward('fd10::1')),
  })
  await proxier.sync(snapshotOf([web], 'IPv6'), { ...settings, nodeAddresses: [] })
  t.strictSame(kernel.destinations('-t [fd00:96::1]:80'), { '[fd10::1]:8080': 1 })
  t.strictSame(kernel.entries('KUBE-6-CLUSTER-IP'), ['fd00:96::1,tcp:80'])
  t.match(kernel.sets.get('KUBE-6-IPVS-IPS')?.words, /family inet6/)
  t.ok([...kernel.sets.keys()].every(name => name.length <= 31))
  t.ok(
    kernel.written.includes(
      'address add fd00:96::1/128 dev kube-ipvs0 nodad preferred_lft 0',
    ),
  )
})

const serverOptions = async (scheduler: string, affinityMs: number) => {
  const { kernel, proxier } = fixture({ scheduler })
  const web = servicePort('web', { affinityMs, ...everywhere(forward('10.244.1.1')) })
  await proxier.sync(snapshotOf([web]), settings)
  return kernel.servers.get('-t 10.0.0.1:80')?.how
}

t.test('virtual servers have the scheduler, and persistence in seconds', async t => {
  t.equal(await serverOptions('', 0), '-s rr')
  t.equal(await serverOptions('wlc', 10_800_000), '-s wlc -p 10800')
  t.equal(await serverOptions('mh', 1), '-s mh -b mh-port -p 1')
})

const marked = async (over: Partial<typeof settings>): Promise<readonly string[]> => {
  const { kernel, proxier } = fixture()
  await proxier.sync(snapshotOf([]), { ...settings, ...over })
  return kernel.rules
    .chain('nat', 'KUBE-SERVICES')
    .filter(rule => / KUBE-CLUSTER-IP /.test(rule))
    .slice(0, -1)
}
const set = '-m set --match-set KUBE-CLUSTER-IP dst,dst'

t.test('who is masqueraded on the way to a ClusterIP', async t => {
  t.strictSame(await marked({ masqueradeAll: true }), [`${set} -j KUBE-MARK-MASQ`])
  t.strictSame(await marked({ localDetector: { by: 'none' } }), [
    '-m set --match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ',
  ])
  const cidrs = ['10.244.0.0/24', '10.244.1.0/24']
  t.strictSame(await marked({ localDetector: { by: 'source', cidrs } }), [
    `-s 10.244.0.0/24 ${set} -j ACCEPT`,
    `-s 10.244.1.0/24 ${set} -j ACCEPT`,
    `${set} -j KUBE-MARK-MASQ`,
  ])
  t.strictSame(await marked({ localDetector: { by: 'bridge', name: 'cni0' } }), [
    `-i cni0 ${set} -j ACCEPT`,
    `${set} -j KUBE-MARK-MASQ`,
  ])
  t.match(await marked({ localDetector: { by: 'interface prefix', prefix: 'veth' } }), [
    /^-i veth\+ /,
  ])
})
