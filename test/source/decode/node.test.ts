import t from 'tap'
import {
  decoded,
  faultsOf,
  objectOf,
  service,
  slice,
  type Fields,
} from './raw-objects.ts'

/** What is kept of Nodes and ServiceCIDRs. */
t.test('Nodes', async t => {
  t.test('a Node keeps its zone and addresses, internal ones first', async t => {
    const addresses = [
      { type: 'Hostname', address: 'n1' },
      { type: 'ExternalIP', address: '192.0.2.1' },
      { type: 'InternalIP', address: '10.0.0.1' },
    ]
    const raw = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1.example', labels: { 'topology.kubernetes.io/zone': 'z1' } },
      status: { addresses },
    }
    t.strictSame(decoded(raw).changes, [
      {
        kind: 'Node',
        name: 'n1.example',
        object: {
          name: 'n1.example',
          zone: 'z1',
          addresses: ['10.0.0.1', '192.0.2.1'],
          podCIDRs: [],
          leaving: false,
        },
      },
    ])
    t.equal(decoded(raw).key, 'Node n1.example')
    const bad = { ...raw, status: { addresses: [{ type: 'InternalIP', address: 'n1' }] } }
    t.strictSame(faultsOf(bad), [
      'status.addresses[0].address: "n1" is not an IP address',
    ])
  })

  t.test('a Node keeps the CIDRs of its pods, and whether it is to go', async t => {
    const raw = (spec: Fields, metadata: Fields = {}): Fields => ({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1', ...metadata },
      spec,
    })
    const table: [why: string, raw: Fields, expected: Fields][] = [
      ['one CIDR', raw({ podCIDR: '10.1.0.5/24' }), { podCIDRs: ['10.1.0.0/24'] }],
      [
        'both families',
        raw({ podCIDR: '10.1.0.0/24', podCIDRs: ['10.1.0.0/24', 'FD00::/64'] }),
        { podCIDRs: ['10.1.0.0/24', 'fd00::/64'] },
      ],
      ['none yet', raw({ podCIDR: '' }), { podCIDRs: [], leaving: false }],
      [
        'another taint',
        raw({ taints: [{ key: 'x', effect: 'NoSchedule' }] }),
        { leaving: false },
      ],
      [
        'the autoscaler’s taint',
        raw({
          taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }],
        }),
        { leaving: true },
      ],
      [
        'being deleted',
        raw({}, { deletionTimestamp: '2026-01-01T00:00:00Z' }),
        { leaving: true },
      ],
      ['not being deleted', raw({}, { deletionTimestamp: null }), { leaving: false }],
    ]
    for (const [why, given, expected] of table) t.match(objectOf(given), expected, why)
    const bad = raw({ podCIDRs: ['10.1.0.0', 'fd00::/64'] })
    t.match(objectOf(bad), { podCIDRs: ['fd00::/64'] }, 'the good one stays')
    t.strictSame(faultsOf(bad), [
      'spec.podCIDRs[0]: "10.1.0.0" is not a CIDR; give one like 192.0.2.0/24 or 2001:db8::/32',
    ])
  })

  t.test('a ServiceCIDR keeps its CIDRs, in either version', async t => {
    const raw = (cidrs: unknown, version = 'v1'): Fields => ({
      apiVersion: `networking.k8s.io/${version}`,
      kind: 'ServiceCIDR',
      metadata: { name: 'kubernetes' },
      spec: { cidrs },
    })
    for (const version of ['v1', 'v1beta1'])
      t.strictSame(decoded(raw(['10.96.0.1/12', 'FD00::/112'], version)).changes, [
        {
          kind: 'ServiceCIDR',
          name: 'kubernetes',
          object: { name: 'kubernetes', cidrs: ['10.96.0.0/12', 'fd00::/112'] },
        },
      ])
    t.equal(decoded(raw([])).key, 'ServiceCIDR kubernetes')
    const right = 'is not a CIDR; give one like 192.0.2.0/24 or 2001:db8::/32'
    const table: [cidrs: unknown[], served: string[], ...faults: string[]][] = [
      [['10.96.0.0/12', 5], ['10.96.0.0/12'], `spec.cidrs[1]: 5 ${right}`],
      [
        ['10.0.0.0/99', 'fd00::/112'],
        ['fd00::/112'],
        `spec.cidrs[0]: "10.0.0.0/99" ${right}`,
      ],
      [
        ['10.96.0.0/12', '10.0.0.0/16'],
        ['10.96.0.0/12'],
        'spec.cidrs[1]: is a second IPv4 CIDR; give one of each family at most',
      ],
      [['10.96.0.0'], [], `spec.cidrs[0]: "10.96.0.0" ${right}`],
    ]
    for (const [cidrs, served, ...faults] of table) {
      t.strictSame(faultsOf(raw(cidrs)), faults)
      t.match(objectOf(raw(cidrs)), { cidrs: served })
      t.equal(decoded(raw(cidrs)).unread, served.length === 0)
    }
  })
})

t.test(
  '240.0.0.0/4 is of single hosts: clouds give it to Nodes, pods and Services',
  async t => {
    const [own, pod, vip] = ['240.1.2.3', '249.0.0.1', '255.255.255.254']
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n1' },
      status: { addresses: [{ type: 'InternalIP', address: own }] },
    }
    const web = service({ clusterIP: vip, externalIPs: [own, '239.255.255.255'] })
    t.match(objectOf(node), { addresses: [own] })
    t.match(objectOf(slice({ endpoints: [{ addresses: [pod] }] })), {
      endpoints: [{ address: pod }],
    })
    t.match(objectOf(web), { clusterIPs: [vip], externalIPs: [own] })
    t.equal(faultsOf(web).length, 1, 'multicast ends at 239')
    t.equal(faultsOf(service({ externalIPs: ['255.255.255.255'] })).length, 1)
  },
)
