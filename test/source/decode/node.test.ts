import t from 'tap'
import { decoded, faultsOf, objectOf, type Fields } from './raw-objects.ts'

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
    t.strictSame(faultsOf(raw(['10.96.0.0', 5])), ['spec.cidrs[1]: 5 is not text'])
    t.strictSame(faultsOf(raw(['10.96.0.0/12', '10.0.0.0/99'])), [
      'spec.cidrs[1]: "10.0.0.0/99" is not a CIDR; give one like 192.0.2.0/24 or 2001:db8::/32',
    ])
    t.strictSame(faultsOf(raw(['10.96.0.0/12', '10.0.0.0/16'])), [
      'spec.cidrs: holds more than one IPv4 CIDR; give one at most',
    ])
    t.strictSame(decoded(raw(['10.96.0.0'])).changes, [])
  })
})
