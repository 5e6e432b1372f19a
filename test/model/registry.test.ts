import assert from 'node:assert/strict'
import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import type { Change, EndpointSlice, Service } from '../../src/model/service.ts'
import type { RetryOptions } from '../../src/model/traffic.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import * as objects from '../support/objects.ts'
import { gone, portSpec, put, service } from '../support/objects.ts'

const slice = (
  name: string,
  serviceName: string,
  ...addresses: string[]
): EndpointSlice => objects.slice(addresses, { name, serviceName })

const registryOf = (...changes: Change[]): Registry => {
  const registry = new Registry()
  registry.apply(changes)
  return registry
}
const v4 = (registry: Registry) => registry.snapshot('IPv4').servicePorts
const web = 'default/web:http/TCP'
const addressesOf = (registry: Registry, key = web): string[] | undefined =>
  v4(registry)
    .get(key)
    ?.endpoints.map(({ address }) => address)

t.test(
  'retries are for the TCP ports of a Service, and for UDP where it replies',
  async t => {
    const ports = (['TCP', 'UDP', 'SCTP'] as const).map(protocol =>
      portSpec({ protocol }),
    )
    const retrying = (retry: RetryOptions): string[] => {
      const found = v4(registryOf(put(service('web', { ports, retry }))))
      return [...found.values()]
        .filter(port => port.retry)
        .map(({ protocol }) => protocol)
        .toSorted()
    }
    const retry = { earlyClose: true, replay: 0, holdMs: 1000 }
    t.strictSame(retrying(retry), ['TCP'])
    t.strictSame(retrying({ ...retry, expectsReplies: true }), ['TCP', 'UDP'])
  },
)

t.test('a Service that asks for what the relay does has it for TCP and UDP', async t => {
  const ports = (['TCP', 'UDP', 'SCTP'] as const).map(protocol => portSpec({ protocol }))
  const relayed = (over: Partial<Service>): string[] => {
    const found = v4(registryOf(put(service('web', { ports, ...over }))))
    return [...found.values()]
      .filter(port => port.relayed)
      .map(({ protocol }) => protocol)
      .toSorted()
  }
  t.strictSame(relayed({}), [])
  t.strictSame(relayed({ relayed: false }), [])
  for (const over of [
    { relayed: true },
    { onDown: 'keep' },
    { retry: { earlyClose: true, replay: 0 } },
    { limits: { routeConnections: undefined, clientRate: 10 } },
    { ages: { idleMs: undefined, lifetimeMs: 1000 } },
    { balance: { by: 'random' } },
  ] satisfies Partial<Service>[])
    t.strictSame(relayed(over), ['TCP', 'UDP'], JSON.stringify(over))
})

t.test('endpoints have the weight of their zone', async t => {
  const zones = ['a', 'b', ''].map((zone, i) =>
    objects.endpoint(`10.1.0.${i + 1}`, { zone }),
  )
  const balance = { by: 'random', zoneWeights: { a: 3, c: 5 } } as const
  const weightsOf = (over: Partial<Service>) =>
    v4(registryOf(put(objects.slice(zones)), put(service('web', over))))
      .get(web)
      ?.reachable.map(({ weight }) => weight)
  t.strictSame(weightsOf({ balance }), [3, undefined, undefined])
  t.strictSame(weightsOf({}), [undefined, undefined, undefined])
})

t.test('externalIPs are left alone where they are not wanted', async t => {
  const registry = new Registry({ externalIPs: false })
  registry.apply([
    put(slice('web-1', 'web', '10.1.0.1')),
    put(service('web', { externalIPs: ['192.0.2.1'] })),
  ])
  t.strictSame(
    v4(registry)
      .get(web)
      ?.vips.map(({ kind }) => kind),
    ['ClusterIP'],
  )
})

t.test('a snapshot says everything of a ServicePort', async t => {
  const registry = registryOf(
    put(slice('web-1', 'web', '10.1.0.1')),
    put(
      service('web', {
        clusterIPs: ['10.0.0.1', 'fd00::1'],
        externalIPs: ['192.0.2.1'],
        ports: [portSpec({ nodePort: 30080 })],
        affinityMs: 10_800_000,
      }),
    ),
  )
  const endpoint = { ...objects.endpoint('10.1.0.1'), port: 8080 }
  const all = { verdict: 'forward', endpoints: [endpoint] }
  t.strictSame(
    [...v4(registry)],
    [
      [
        web,
        {
          key: web,
          name: 'default/web:http',
          namespace: 'default',
          serviceName: 'web',
          portName: 'http',
          protocol: 'TCP',
          family: 'IPv4',
          vips: [
            { kind: 'ClusterIP', address: '10.0.0.1', port: 80 },
            { kind: 'ExternalIP', address: '192.0.2.1', port: 80 },
            { kind: 'NodePort', address: '0.0.0.0', port: 30080 },
          ],
          affinityMs: 10_800_000,
          endpoints: [endpoint],
          internalTrafficPolicy: 'Cluster',
          externalTrafficPolicy: 'Cluster',
          internal: all,
          external: all,
          externalFromNode: all,
          reachable: [endpoint],
          sourceRanges: undefined,
        },
      ],
    ],
  )
  t.match(registry.snapshot('IPv6').servicePorts.get(web), {
    family: 'IPv6',
    vips: [{ address: 'fd00::1' }, { address: '::', port: 30080 }],
    endpoints: [],
    internal: { verdict: 'reject' },
  })
  t.same(registry.problems(), [])
})

t.test('a new registry has two empty snapshots and no problem', async t => {
  for (const family of ipFamilies) {
    const { servicePorts, healthChecks } = new Registry().snapshot(family)
    t.same([servicePorts.size, healthChecks.size], [0, 0])
  }
  t.same(new Registry().problems(), [])
})

t.test('a Service that is deleted and made again keeps its endpoints', async t => {
  const registry = registryOf(
    put(service('web')),
    put(slice('web-1', 'web', '10.1.0.1')),
    gone('Service', 'web'),
  )
  t.equal(v4(registry).size, 0)
  registry.apply([put(service('web'))])
  t.same(addressesOf(registry), ['10.1.0.1'])
})

t.test('an endpoint that moves between slices never disappears', async t => {
  const registry = registryOf(put(service('web')), put(slice('web-1', 'web', '10.1.0.1')))
  const before = registry.snapshot('IPv4')
  registry.apply([put(slice('web-2', 'web', '10.1.0.1')), put(slice('web-1', 'web'))])
  t.equal(registry.snapshot('IPv4'), before)
})

t.test('a slice whose label moves on takes its endpoints along', async t => {
  const registry = registryOf(
    put(service('web')),
    put(service('api', { clusterIPs: ['10.0.0.2'] })),
    put(slice('x', 'web', '10.1.0.1')),
  )
  t.same(addressesOf(registry), ['10.1.0.1'])
  registry.apply([put(slice('x', 'api', '10.1.0.1'))])
  t.same(addressesOf(registry), [])
  t.same(addressesOf(registry, 'default/api:http/TCP'), ['10.1.0.1'])
})

t.test('slices of another namespace are not mixed in', async t => {
  const other = { ...slice('web-1', 'web', '10.1.0.2'), namespace: 'other' }
  const registry = registryOf(
    put(service('web')),
    put(slice('web-1', 'web', '10.1.0.1')),
    put(other),
  )
  t.same(addressesOf(registry), ['10.1.0.1'])
})

t.test('deleting what is not there is no error and changes nothing', async t => {
  const registry = registryOf(put(service('web')))
  const before = registry.snapshot('IPv4')
  registry.apply([gone('Service', 'nobody'), gone('EndpointSlice', 'nothing')])
  t.equal(registry.snapshot('IPv4'), before)
})

t.test('a loser of its only VIP is absent until the holder lets go', async t => {
  const registry = registryOf(
    put(service('web', { createdAt: 2 })),
    put(service('old', { createdAt: 1 })),
  )
  t.same([...v4(registry).keys()], ['default/old:http/TCP'])
  t.match(registry.problems(), [
    {
      object: 'Service default/web',
      field: 'spec.clusterIPs',
      message: /10\.0\.0\.1:80\/TCP is held by Service default\/old/,
    },
  ])
  registry.apply([gone('Service', 'old')])
  t.same([...v4(registry).keys()], [web])
  t.same(registry.problems(), [])
})

t.test('a loser of one VIP keeps the others', async t => {
  const registry = registryOf(
    put(service('old')),
    put(
      service('web', {
        clusterIPs: ['10.0.0.2'],
        externalIPs: ['10.0.0.1'],
        createdAt: 1,
      }),
    ),
  )
  t.same(v4(registry).get(web)?.vips, [
    { kind: 'ClusterIP', address: '10.0.0.2', port: 80 },
  ])
  t.equal(registry.problems()[0]?.field, 'spec.externalIPs[0]')
})

t.test('what did not change is the same object', async t => {
  const api = service('api', { clusterIPs: ['10.0.0.2', 'fd00::2'] })
  const registry = registryOf(
    put(service('web')),
    put(api),
    put(slice('web-1', 'web', '10.1.0.1')),
    put(slice('api-1', 'api', '10.1.0.2')),
  )
  const [before, v6Before] = [registry.snapshot('IPv4'), registry.snapshot('IPv6')]

  t.test('the snapshot, when objects arrive again as they were', async t => {
    registry.apply([put(structuredClone(api)), put(slice('web-1', 'web', '10.1.0.1'))])
    t.equal(registry.snapshot('IPv4'), before)
    registry.apply([gone('Service', 'api')])
    registry.apply([put(api)])
    t.equal(registry.snapshot('IPv4'), before, 'gone and back before anyone looked')
  })

  t.test('the other ServicePorts and the other family, when one changes', async t => {
    registry.apply([put(slice('web-1', 'web', '10.1.0.9'))])
    const after = registry.snapshot('IPv4')
    t.not(after, before)
    t.not(after.servicePorts.get(web), before.servicePorts.get(web))
    const other = 'default/api:http/TCP'
    t.equal(after.servicePorts.get(other) ?? 'gone', before.servicePorts.get(other))
    t.equal(registry.snapshot('IPv6'), v6Before)
  })

  t.test('and an old snapshot stays as it was', async t => {
    t.same(
      before.servicePorts.get(web)?.endpoints.map(({ address }) => address),
      ['10.1.0.1'],
    )
    registry.apply([gone('Service', 'web')])
    t.equal(registry.snapshot('IPv4').servicePorts.size, 1)
    t.equal(before.servicePorts.size, 2)
  })
})

t.test('each part of a ServicePort makes it a new object when it changes', async t => {
  const spec = service('web', { externalIPs: ['192.0.2.9'] })
  const ends = slice('web-1', 'web', '10.1.0.1')
  const [only] = ends.endpoints
  assert(only)
  const table: [what: string, change: Change][] = [
    ['affinity', put({ ...spec, affinityMs: 1 })],
    ['retry', put({ ...spec, retry: { earlyClose: true, replay: 0 } })],
    ['checks', put({ ...spec, onDown: 'keep' })],
    ['internal policy', put({ ...spec, internalTrafficPolicy: 'Local' })],
    ['external policy', put({ ...spec, externalTrafficPolicy: 'Local' })],
    ['source ranges', put({ ...spec, sourceRanges: ['192.0.2.0/24'] })],
    ['source ranges that let nobody in', put({ ...spec, sourceRanges: [] })],
    ['another VIP', put({ ...spec, externalIPs: ['192.0.2.1'] })],
    ['another port', put({ ...spec, ports: [portSpec({ port: 81 })] })],
    [
      'target port',
      put({ ...ends, ports: [{ name: 'http', protocol: 'TCP', port: 1 }] }),
    ],
    ['address', put(slice('web-1', 'web', '10.1.0.2'))],
    ['one endpoint more', put(slice('web-1', 'web', '10.1.0.1', '10.1.0.2'))],
    ['one endpoint less', put(slice('web-1', 'web'))],
    ['ready', put({ ...ends, endpoints: [{ ...only, ready: false }] })],
    ['serving', put({ ...ends, endpoints: [{ ...only, serving: false }] })],
    ['terminating', put({ ...ends, endpoints: [{ ...only, terminating: true }] })],
    ['tier', put({ ...ends, endpoints: [{ ...only, tier: 1 }] })],
    ['cut', put({ ...ends, endpoints: [{ ...only, cut: 'down' }] })],
    ['node', put({ ...ends, endpoints: [{ ...only, nodeName: 'n' }] })],
    ['zone', put({ ...ends, endpoints: [{ ...only, zone: 'z' }] })],
    ['zone hints', put({ ...ends, endpoints: [{ ...only, zoneHints: ['z'] }] })],
    ['node hints', put({ ...ends, endpoints: [{ ...only, nodeHints: ['n'] }] })],
  ]
  for (const [what, change] of table) {
    const registry = registryOf(put(spec), put(ends))
    const before = v4(registry).get(web)
    registry.apply([change])
    t.ok(before)
    t.not(v4(registry).get(web), before, what)
  }
})

const address = (index: number): string => `10.0.${index >> 8}.${index & 255}`

const make = (index: number, affinityMs: number): Change =>
  put(service(`web-${index}`, { clusterIPs: [address(index)], affinityMs }))

t.test('one changed Service among many rebuilds no other', async t => {
  let reads = 0
  const watched = (index: number): EndpointSlice => ({
    ...slice(`s-${index}`, `web-${index}`),
    get endpoints() {
      reads++
      return []
    },
  })
  const indices = Array.from({ length: 10_000 }, (_, index) => index)
  const registry = registryOf(
    ...indices.flatMap(index => [make(index, 0), put(watched(index))]),
  )
  t.equal(v4(registry).size, 10_000)
  t.equal(reads, 10_000)
  registry.apply([make(77, 5)])
  t.equal(v4(registry).get('default/web-77:http/TCP')?.affinityMs, 5)
  t.equal(reads, 10_001)
})
