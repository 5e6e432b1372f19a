import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import type { Change, Node } from '../../src/model/service.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import {
  endpoint,
  gone,
  node,
  portSpec,
  put,
  service,
  slice,
} from '../support/objects.ts'

const web = 'default/web:http/TCP'
const api = 'default/api:http/TCP'

const registryOf = (...changes: Change[]): Registry => {
  const registry = new Registry({ nodeName: 'n1' })
  registry.apply(changes)
  return registry
}

const reachableOf = (registry: Registry): string[] | undefined =>
  registry
    .snapshot('IPv4')
    .servicePorts.get(web)
    ?.reachable.map(({ address }) => address)

const zoned = slice([
  endpoint('10.1.0.1', { zoneHints: ['a'], nodeName: 'n1' }),
  endpoint('10.1.0.2', { zoneHints: ['b'], nodeName: 'n2' }),
])

/** What the registry makes of the Node it runs on, and of ServiceCIDRs. */
t.test('this node', async t => {
  t.test('its own Node’s zone picks by hints, and moves with its label', async t => {
    const registry = registryOf(put(service()), put(zoned))
    t.same(reachableOf(registry), ['10.1.0.1', '10.1.0.2'], 'no zone known')
    registry.apply([put(node('n1', { zone: 'a' }))])
    t.same(reachableOf(registry), ['10.1.0.1'])
    registry.apply([put(node('n1', { zone: 'b' }))])
    t.same(reachableOf(registry), ['10.1.0.2'])
    registry.apply([gone('Node', 'n1')])
    t.same(reachableOf(registry), ['10.1.0.2'], 'as last known')
    t.match(registry.problems(), [
      { object: 'Node n1', message: /is not there any more/ },
    ])
    registry.apply([put(node('n1', { zone: '' }))])
    t.same(reachableOf(registry), ['10.1.0.1', '10.1.0.2'], 'it is known to have none')
    t.same(registry.problems(), [])
  })

  t.test('addresses and CIDRs that go stay as last known, each by itself', async t => {
    const v6 = { addresses: ['fd00::1'], podCIDRs: ['10.2.0.0/24'] }
    const both = {
      addresses: ['192.0.2.1', 'fd00::1'],
      podCIDRs: ['10.1.0.0/24', 'fd01::/64'],
    }
    const steps: [now: Change, known: Partial<Node>, ...fields: string[]][] = [
      [put(node('n1', both)), both],
      [
        put(node('n1', v6)),
        { addresses: ['fd00::1', '192.0.2.1'], podCIDRs: ['10.2.0.0/24', 'fd01::/64'] },
        'status.addresses',
        'spec.podCIDRs',
      ],
      [gone('Node', 'n1'), { addresses: ['fd00::1', '192.0.2.1'] }, ''],
      [
        put(node('n1')),
        { podCIDRs: ['10.2.0.0/24', 'fd01::/64'] },
        'status.addresses',
        'spec.podCIDRs',
      ],
      [
        put(node('n1', { ...both, addresses: ['192.0.2.2', 'fd00::2'] })),
        { addresses: ['192.0.2.2', 'fd00::2'] },
      ],
    ]
    const registry = registryOf()
    for (const [now, known, ...fields] of steps) {
      registry.apply([now])
      t.match(registry.lastKnownNode(), known)
      t.same(
        registry.problems().map(({ field }) => field),
        fields,
      )
    }
    t.match(registryOf(gone('Node', 'n1')).lastKnownNode(), undefined)
  })

  t.test('the external policy says nothing of a route, which is internal', async t => {
    const spec = {
      listens: [{ address: '10.0.0.1', port: 80 }],
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Cluster',
    } as const
    const registry = registryOf(
      put(service('web', spec)),
      put(slice([endpoint('10.1.0.2', { nodeName: 'n2' })])),
    )
    const port = registry.snapshot('IPv4').servicePorts.get(web)
    t.match(port?.vips, [{ kind: 'Route' }])
    t.equal(port?.external, port?.internal)
    t.same(reachableOf(registry), [])
  })

  t.test('a zone change rebuilds only what has hints', async t => {
    const registry = registryOf(
      put(service()),
      put(zoned),
      put(service('api', { clusterIPs: ['10.0.0.2'] })),
      put(slice(['10.1.0.3'], { name: 'api-1', serviceName: 'api' })),
    )
    const before = registry.snapshot('IPv4')
    const six = registry.snapshot('IPv6')
    registry.apply([put(node('n1', { zone: 'a' }))])
    const after = registry.snapshot('IPv4')
    t.not(after.servicePorts.get(web), before.servicePorts.get(web))
    t.equal(after.servicePorts.get(api), before.servicePorts.get(api))
    t.equal(registry.snapshot('IPv6'), six)
  })

  t.test(
    'it is a new object also when only clients of the node go elsewhere',
    async t => {
      const local = service('web', {
        internalTrafficPolicy: 'Local',
        externalTrafficPolicy: 'Local',
        externalIPs: ['192.0.2.9'],
      })
      const registry = registryOf(put(local), put(zoned), put(node('n1', { zone: 'a' })))
      const before = registry.snapshot('IPv4').servicePorts.get(web)
      registry.apply([put(node('n1', { zone: 'b' }))])
      const after = registry.snapshot('IPv4').servicePorts.get(web)
      t.strictSame(after?.external, before?.external)
      t.equal(before?.externalFromNode.endpoints[0]?.address, '10.1.0.1')
      t.equal(after?.externalFromNode.endpoints[0]?.address, '10.1.0.2')
    },
  )

  t.test('other Nodes, and all where it has no name, change nothing', async t => {
    const registry = registryOf(put(service()), put(zoned))
    const before = registry.snapshot('IPv4')
    registry.apply([put(node('n2', { zone: 'a' }))])
    t.equal(registry.snapshot('IPv4'), before)
    t.equal(registry.node(), undefined)
    const nameless = new Registry()
    nameless.apply([put(service()), put(zoned), put(node('n1', { zone: 'a' }))])
    t.same(reachableOf(nameless), ['10.1.0.1', '10.1.0.2'])
    t.equal(nameless.node(), undefined)
  })

  t.test('it tells its own Node as it is', async t => {
    const own = node('n1', { leaving: true, podCIDRs: ['10.1.0.0/24'] })
    const registry = registryOf(put(own))
    t.equal(registry.node(), own)
    registry.apply([gone('Node', 'n1')])
    t.equal(registry.node(), undefined)
  })

  t.test('ServiceCIDRs are told sorted and each once', async t => {
    const registry = registryOf(
      put({ name: 'kubernetes', cidrs: ['fd00::/112', '10.96.0.0/16'] }),
      put({ name: 'more', cidrs: ['10.96.0.0/16', '10.100.0.0/16'] }),
    )
    t.same(registry.serviceCIDRs(), ['10.100.0.0/16', '10.96.0.0/16', 'fd00::/112'])
    registry.apply([gone('ServiceCIDR', 'kubernetes'), gone('ServiceCIDR', 'nothing')])
    t.same(registry.serviceCIDRs(), ['10.100.0.0/16', '10.96.0.0/16'])
  })

  t.test('policies reach the ServicePorts', async t => {
    const spread = put(zoned)
    const local = service('web', { internalTrafficPolicy: 'Local' })
    t.same(reachableOf(registryOf(put(local), spread)), ['10.1.0.1'])

    const external = service('web', {
      externalTrafficPolicy: 'Local',
      ports: [portSpec({ nodePort: 30080 })],
    })
    const port = registryOf(put(external), spread).snapshot('IPv4').servicePorts.get(web)
    t.match(port, {
      internal: { endpoints: [{}, {}] },
      external: { endpoints: [{ address: '10.1.0.1' }] },
      externalFromNode: { endpoints: [{}, {}] },
    })
    t.equal(port?.external.endpoints.length, 1)
  })

  t.test(
    'a port that lost its only external VIP is not accessible from outside',
    async t => {
      const ports = [portSpec({ nodePort: 30080 })]
      const registry = registryOf(
        put(service('api', { clusterIPs: ['10.0.0.2'], ports })),
        put(service('web', { createdAt: 1, internalTrafficPolicy: 'Local', ports })),
        put(slice([endpoint('10.1.0.2', { nodeName: 'n2' })])),
      )
      t.same(reachableOf(registry), [])
      registry.apply([gone('Service', 'api')])
      t.same(reachableOf(registry), ['10.1.0.2'], 'the node port is its own now')
    },
  )

  t.test('IPv4 with endpoints serves, IPv6 without refuses', async t => {
    const dual = service('web', { clusterIPs: ['10.0.0.1', 'fd00::1'] })
    const registry = registryOf(put(dual), put(slice(['10.1.0.1'])))
    const verdicts = ipFamilies.map(
      family => registry.snapshot(family).servicePorts.get(web)?.internal.verdict,
    )
    t.same(verdicts, ['forward', 'reject'])
  })

  t.test(
    'without a ClusterIP of a family a load-balancer IP of it is not served',
    async t => {
      const registry = registryOf(put(service('web', { loadBalancerIPs: ['fd00::1'] })))
      t.equal(registry.snapshot('IPv6').servicePorts.size, 0)
    },
  )

  const ranged = (sourceRanges: readonly string[] | undefined) =>
    put(
      service('web', {
        clusterIPs: ['10.0.0.1', 'fd00::1'],
        loadBalancerIPs: ['203.0.113.1', 'fd00::9'],
        sourceRanges,
      }),
    )
  const rangesOf = (registry: Registry) =>
    ipFamilies.map(
      family => registry.snapshot(family).servicePorts.get(web)?.sourceRanges,
    )

  const table: [
    why: string,
    given: readonly string[] | undefined,
    own: string[],
    expected: [string[] | undefined, string[] | undefined],
  ][] = [
    [
      'no source ranges let everybody in',
      undefined,
      ['192.0.2.1'],
      [undefined, undefined],
    ],
    [
      'source ranges go to the family they are of',
      ['192.0.2.0/24', 'fd01::/64', '198.51.100.0/24'],
      [],
      [['192.0.2.0/24', '198.51.100.0/24'], ['fd01::/64']],
    ],
    [
      'ranges of the other family only let nobody in',
      ['192.0.2.0/24'],
      [],
      [['192.0.2.0/24'], []],
    ],
    [
      'the whole of one family, and nothing of the other, lets everybody in',
      ['0.0.0.0/0'],
      [],
      [undefined, undefined],
    ],
    ['ranges of which none was sound let nobody in', [], [], [[], []]],
    [
      'a range of a whole family lets all of that family in',
      ['192.0.2.0/24', '0.0.0.0/0', 'fd01::/64'],
      [],
      [undefined, ['fd01::/64']],
    ],
    [
      'where this node may come in, so may the load-balancer IP itself',
      ['192.0.2.0/24', 'fd01::/64'],
      ['192.0.2.1', 'fd02::1'],
      [['192.0.2.0/24', '203.0.113.1/32'], ['fd01::/64']],
    ],
    ['in IPv6 as well', ['fd01::/64'], ['fd01::5'], [[], ['fd01::/64', 'fd00::9/128']]],
  ]
  for (const [why, given, own, expected] of table) {
    t.test(why, async t => {
      const registry = registryOf(ranged(given), put(node('n1', { addresses: own })))
      t.strictSame(rangesOf(registry), expected)
    })
  }

  t.test('a new address of this node is looked up in the ranges again', async t => {
    const registry = registryOf(ranged(['192.0.2.0/24']))
    t.strictSame(rangesOf(registry)[0], ['192.0.2.0/24'])
    registry.apply([put(node('n1', { addresses: ['192.0.2.1'] }))])
    t.strictSame(rangesOf(registry)[0], ['192.0.2.0/24', '203.0.113.1/32'])
  })
})
