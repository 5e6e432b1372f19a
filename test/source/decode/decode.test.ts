import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node'
import * as fc from 'fast-check'
import t from 'tap'
import { decode } from '../../../src/source/decode/decode.ts'
import { decoded, faultsOf, service, slice } from './raw-objects.ts'

t.test('all faults of one object are told at once, up to a bound', async t => {
  const bad = { port: 70000, protocol: 'QUIC', nodePort: -1 }
  t.equal(faultsOf(service({ clusterIP: 'x', ports: [bad] })).length, 4)
  const many = faultsOf(service({ externalIPs: Array.from({ length: 30 }, () => 'x') }))
  t.equal(many.length, 21)
  t.equal(many.at(-1), ': and 10 more problems')
})

t.test('a name that could forge a log line is escaped wherever it is said', async t => {
  const object = decoded(service({}, { name: 'a\n\u001b[2J\u202e', namespace: '\r' }))
  t.equal(object.key, '')
  t.equal(
    object.problems[0]?.object,
    String.raw`Service "\u000d"/"a\u000a\u001b[2J\u202e"`,
  )
})

t.test('other kinds and versions are skipped, other things are malformed', async t => {
  t.strictSame(decode({ apiVersion: 'apps/v1', kind: 'Deployment' }), {
    skipped: 'apps/v1 Deployment',
  })
  t.strictSame(decode({ ...slice(), apiVersion: 'discovery.k8s.io/v1beta1' }), {
    skipped: 'discovery.k8s.io/v1beta1 EndpointSlice',
  })
  t.strictSame(decode({ apiVersion: 'v1', kind: 'Po\nd' }), {
    skipped: String.raw`v1 Po\u000ad`,
  })
  const malformed: [unknown, RegExp][] = [
    ['apiVersi', /^is not an object/],
    [[], /^is not an object/],
    [null, /^is not an object/],
    [{ kind: 'Service' }, /^has no apiVersion/],
    [{ routes: [] }, /^is a file of routes; give it to usher sidecar --config/],
    [{ apiVersion: 'v1' }, /^has no kind/],
    [{ apiVersion: 'v1', kind: ['Service'] }, /^has no kind/],
  ]
  for (const [raw, message] of malformed) t.match(decode(raw), { malformed: message })
})

t.test('no input makes decoding throw, or say anything unprintable', async t => {
  const kinds = [
    'v1 Service',
    'v1 Endpoints',
    'v1 Node',
    'networking.k8s.io/v1 ServiceCIDR',
    'discovery.k8s.io/v1 EndpointSlice',
  ]
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('10.0.0.1', '::1', 'None', 'TCP', 'web', 80, 0, '__proto__'),
  )
  const field = fc.constantFrom(
    'name',
    'namespace',
    'labels',
    'type',
    'clusterIP',
    'clusterIPs',
    'ports',
    'port',
    'addresses',
    'annotations',
    'cidrs',
    'deletionTimestamp',
    'forZones',
    'hints',
    'loadBalancerSourceRanges',
    'podCIDRs',
    'taints',
    'addressType',
    'endpoints',
    'subsets',
    'ip',
    'protocol',
    'nodePort',
  )
  const fields = fc.dictionary(
    field,
    fc.oneof(value, fc.array(fc.dictionary(field, value))),
  )
  const raw = fc.record({
    kind: fc.constantFrom(...kinds),
    metadata: fc.oneof(fields, fc.constant({ name: 'web' }), value),
    spec: fc.oneof(fields, value),
    status: fc.oneof(fields, value),
    top: fields,
  })
  const check = () =>
    fc.assert(
      fc.property(raw, ({ kind: both, top, ...body }) => {
        const [apiVersion, kind] = both.split(' ')
        const object = decoded({ ...top, ...body, apiVersion, kind })
        const said = [object.key, object.title, ...object.problems.flatMap(Object.values)]
        const silent = object.changes.length === 0 && object.problems.length === 0
        const empty = object.ignored !== '' || object.title.startsWith('Endpoints')
        return (
          said.every(text => /^[\x20-\x7e]*$/.test(String(text))) && (!silent || empty)
        )
      }),
      { numRuns: 300 },
    )
  t.doesNotThrow(check)
})

t.test("objects of the API's own types are understood", async t => {
  // Typed, so that a field which the API does not have fails the build.
  const api: V1Service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'web',
      namespace: 'shop',
      creationTimestamp: new Date('2026-01-01T00:00:00Z'),
    },
    spec: {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.10',
      clusterIPs: ['10.96.0.10', 'fd00::a'],
      ipFamilies: ['IPv4', 'IPv6'],
      externalIPs: ['192.0.2.1'],
      ports: [
        { name: 'http', port: 80, protocol: 'TCP', targetPort: 'web', nodePort: 30080 },
      ],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    },
    status: {
      loadBalancer: {
        ingress: [
          { ip: '192.0.2.2', ipMode: 'VIP' },
          { ip: '192.0.2.3', ipMode: 'Proxy' },
          { hostname: 'lb.example' },
        ],
      },
    },
  }
  t.match(decoded(api).changes, [
    {
      kind: 'Service',
      namespace: 'shop',
      name: 'web',
      object: {
        createdAt: Date.parse('2026-01-01T00:00:00Z'),
        clusterIPs: ['10.96.0.10', 'fd00::a'],
        externalIPs: ['192.0.2.1'],
        loadBalancerIPs: ['192.0.2.2'],
        ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30080 }],
        affinityMs: 60_000,
      },
    },
  ])
  const apiSlice: V1EndpointSlice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'web-1',
      namespace: 'shop',
      labels: { 'kubernetes.io/service-name': 'web' },
    },
    addressType: 'IPv4',
    endpoints: [
      { addresses: ['10.0.0.1'], conditions: { ready: true }, nodeName: 'n1', zone: 'z' },
    ],
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  }
  t.match(decoded(apiSlice).changes, [
    {
      kind: 'EndpointSlice',
      object: {
        serviceName: 'web',
        endpoints: [{ address: '10.0.0.1', ready: true, nodeName: 'n1', zone: 'z' }],
        ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
      },
    },
  ])
})
