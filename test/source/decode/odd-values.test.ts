import * as fc from 'fast-check'
import t from 'tap'
import { decode } from '../../../src/source/decode/decode.ts'
import { type DecodedObject } from '../../../src/source/decode/decode-object.ts'
import type { Fields } from './raw-objects.ts'

/** What one odd value may come to. */
type Outcome =
  /** One problem; the rest of the object is served. */
  | 'part'
  /** One problem, and nothing is served: there is no name, or nothing that could be served. */
  | 'object'
  /** No problem: any value may be there, and means what it says, or nothing. */
  | 'ignored'

type Row = readonly [odd: fc.Arbitrary<unknown>, outcome?: Outcome]

const noText = fc.constantFrom<unknown>(5, true, {}, [], ['x'])
const noList = fc.constantFrom<unknown>(5, true, 'x', {}, { x: 1 })
const noObject = fc.constantFrom<unknown>(5, true, 'x')
const noNumber = fc.constantFrom<unknown>('80', true, {}, [], -1, 0.5, 65_536, 1e9)
const noAddress = fc.oneof(
  noText,
  fc.constantFrom('x', '0.0.0.0', '::', '224.0.0.1', '239.1.2.3', 'ff02::1', '1.2.3'),
  fc.constantFrom('255.255.255.255', '::ffff:224.0.0.1', 'unix:/run/x', '10.0.0.1/32'),
)
const noEnum = fc.oneof(noText, fc.constantFrom('Later', 'cluster', 'local', ''))
const noName = fc.oneof(noText, fc.constantFrom('A B', '-x', 'x\n', '\u202e'))
const noCidr = fc.oneof(noText, fc.constantFrom('x', '10.0.0.0', '10.0.0.0/33', ''))
const anything = fc.oneof(noText, fc.constantFrom('x', ''))

const metadataRows: Readonly<Record<string, Row>> = {
  metadata: [noObject, 'object'],
  'metadata.name': [fc.oneof(noName, fc.constant('')), 'object'],
  'metadata.uid': [anything, 'ignored'],
  'metadata.annotations': [noObject, 'ignored'],
  // It is only measured with.
  'metadata.annotations.endpoints.kubernetes.io/last-change-trigger-time': [
    anything,
    'ignored',
  ],
  'metadata.creationTimestamp': [anything],
  // Any value is a wish to be deleted.
  'metadata.deletionTimestamp': [anything, 'ignored'],
  'metadata.labels': [noObject],
  // That one is there says that it is none of Usher's, or headless.
  'metadata.labels.service.kubernetes.io/service-proxy-name': [anything, 'ignored'],
  'metadata.labels.service.kubernetes.io/headless': [anything, 'ignored'],
  'metadata.labels.topology.kubernetes.io/zone': [noName],
  'metadata.labels.kubernetes.io/service-name': [noText],
}
const namespaceRow: Row = [fc.oneof(noName, fc.constant('a.b')), 'object']

interface Kind {
  readonly sample: fc.Arbitrary<Fields>
  readonly rows: Readonly<Record<string, Row>>
}

const metadata = {
  name: 'web',
  namespace: 'shop',
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { 'kubernetes.io/service-name': 'web', 'topology.kubernetes.io/zone': 'z1' },
}

/** A list of two or more, of which one may be spoilt. */
const several = <T>(make: (i: number) => T) =>
  fc.integer({ min: 2, max: 5 }).map(length => Array.from({ length }, (_, i) => make(i)))

const kinds: Readonly<Record<string, Kind>> = {
  Service: {
    sample: fc.record({
      apiVersion: fc.constant('v1'),
      kind: fc.constant('Service'),
      metadata: fc.constant({
        ...metadata,
        annotations: { 'usher-proxy.io/hold': '1s' },
      }),
      spec: fc.record({
        type: fc.constantFrom('LoadBalancer', 'NodePort', 'ClusterIP'),
        clusterIP: fc.constant('10.96.0.1'),
        clusterIPs: fc.constant(['10.96.0.1', 'fd00::1']),
        externalIPs: several(i => `192.0.2.${i + 1}`),
        ports: several(i => ({
          name: `p${i}`,
          protocol: i % 2 === 0 ? 'TCP' : 'UDP',
          port: 80 + i,
          nodePort: 30_000 + i,
        })),
        sessionAffinity: fc.constantFrom('None', 'ClientIP'),
        sessionAffinityConfig: fc.constant({ clientIP: { timeoutSeconds: 60 } }),
        internalTrafficPolicy: fc.constantFrom('Cluster', 'Local'),
        externalTrafficPolicy: fc.constantFrom('Cluster', 'Local'),
        loadBalancerSourceRanges: fc.constantFrom(['10.0.0.0/8'], ['10.0.0.0/8', '::/1']),
        healthCheckNodePort: fc.constant(32_000),
      }),
      status: fc.record({
        loadBalancer: fc.record({
          ingress: several(i => ({ ip: `203.0.113.${i + 1}`, ipMode: 'VIP' })),
        }),
      }),
    }),
    rows: {
      ...metadataRows,
      'metadata.labels.topology.kubernetes.io/zone': [noName],
      'metadata.namespace': namespaceRow,
      'metadata.annotations.usher-proxy.io/hold': [anything],
      spec: [noObject, 'object'],
      'spec.type': [noEnum],
      'spec.clusterIP': [noAddress],
      'spec.clusterIPs': [noList],
      'spec.clusterIPs.*': [noAddress],
      'spec.externalIPs': [noList],
      'spec.externalIPs.*': [noAddress],
      // Nothing could be served: the last good version stands.
      'spec.ports': [noList],
      'spec.ports.*': [noObject],
      'spec.ports.*.name': [noName],
      'spec.ports.*.protocol': [noEnum],
      'spec.ports.*.port': [fc.oneof(noNumber, fc.constant(0))],
      'spec.ports.*.nodePort': [noNumber],
      'spec.sessionAffinity': [noEnum],
      'spec.sessionAffinityConfig': [noObject],
      'spec.sessionAffinityConfig.clientIP': [noObject],
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds': [
        noNumber.filter(one => one !== 65_536),
      ],
      'spec.internalTrafficPolicy': [noEnum],
      'spec.externalTrafficPolicy': [noEnum],
      'spec.loadBalancerSourceRanges': [noList],
      'spec.loadBalancerSourceRanges.*': [noCidr],
      'spec.healthCheckNodePort': [noNumber],
      status: [noObject],
      'status.loadBalancer': [noObject],
      'status.loadBalancer.ingress': [noList],
      'status.loadBalancer.ingress.*': [noObject],
      'status.loadBalancer.ingress.*.ip': [noAddress],
      'status.loadBalancer.ingress.*.ipMode': [noEnum],
    },
  },
  EndpointSlice: {
    sample: fc.record({
      apiVersion: fc.constant('discovery.k8s.io/v1'),
      kind: fc.constant('EndpointSlice'),
      metadata: fc.constant(metadata),
      addressType: fc.constant('IPv4'),
      endpoints: several(i => ({
        addresses: [`10.0.0.${i + 1}`],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'n1',
        zone: 'z1',
        hints: { forZones: [{ name: 'z1' }], forNodes: [{ name: 'n1' }] },
      })),
      ports: several(i => ({ name: `p${i}`, protocol: 'TCP', port: 8080 + i })),
    }),
    rows: {
      ...metadataRows,
      'metadata.namespace': namespaceRow,
      'metadata.labels': [noObject, 'object'],
      'metadata.labels.kubernetes.io/service-name': [
        fc.oneof(noText, fc.constant('A')),
        'object',
      ],
      addressType: [noEnum],
      endpoints: [noList, 'object'],
      'endpoints.*': [noObject],
      'endpoints.*.addresses': [fc.oneof(noList, fc.constant([]))],
      'endpoints.*.addresses.*': [noAddress],
      'endpoints.*.conditions': [noObject],
      'endpoints.*.conditions.ready': [noObject.filter(one => one !== true)],
      'endpoints.*.conditions.serving': [noObject.filter(one => one !== true)],
      'endpoints.*.conditions.terminating': [noObject.filter(one => one !== true)],
      'endpoints.*.nodeName': [noName],
      'endpoints.*.zone': [noName],
      'endpoints.*.hints': [noObject],
      'endpoints.*.hints.forZones': [noList],
      'endpoints.*.hints.forZones.*': [noObject],
      'endpoints.*.hints.forZones.*.name': [noName],
      'endpoints.*.hints.forNodes': [noList],
      'endpoints.*.hints.forNodes.*': [noObject],
      'endpoints.*.hints.forNodes.*.name': [noName],
      ports: [noList, 'object'],
      'ports.*': [noObject],
      'ports.*.name': [noName],
      'ports.*.protocol': [noEnum],
      'ports.*.port': [noNumber],
    },
  },
  Endpoints: {
    sample: fc.record({
      apiVersion: fc.constant('v1'),
      kind: fc.constant('Endpoints'),
      metadata: fc.constant(metadata),
      subsets: several(i => ({
        addresses: [0, 1].map(j => ({ ip: `10.0.${i}.${j + 1}`, nodeName: 'n1' })),
        notReadyAddresses: [{ ip: `10.0.${i}.9`, nodeName: 'n1' }],
        ports: [0, 1].map(j => ({ name: `p${j}`, protocol: 'TCP', port: 8080 + j })),
      })),
    }),
    rows: {
      ...metadataRows,
      'metadata.namespace': namespaceRow,
      subsets: [noList, 'object'],
      'subsets.*': [noObject],
      'subsets.*.addresses': [noList],
      'subsets.*.addresses.*': [noObject],
      'subsets.*.addresses.*.ip': [noAddress],
      'subsets.*.addresses.*.nodeName': [noName],
      'subsets.*.notReadyAddresses': [noList],
      'subsets.*.notReadyAddresses.*': [noObject],
      'subsets.*.notReadyAddresses.*.ip': [noAddress],
      'subsets.*.notReadyAddresses.*.nodeName': [noName],
      'subsets.*.ports': [noList],
      'subsets.*.ports.*': [noObject],
      'subsets.*.ports.*.name': [noName],
      'subsets.*.ports.*.protocol': [noEnum],
      'subsets.*.ports.*.port': [noNumber],
    },
  },
  Node: {
    sample: fc.record({
      apiVersion: fc.constant('v1'),
      kind: fc.constant('Node'),
      metadata: fc.constant(metadata),
      spec: fc.constant({
        podCIDR: '10.1.0.0/24',
        podCIDRs: ['10.1.0.0/24', 'fd00::/64'],
        taints: [{ key: 'a' }, { key: 'b' }],
      }),
      status: fc.record({
        addresses: several(i => ({
          type: i === 0 ? 'InternalIP' : 'ExternalIP',
          address: `198.51.100.${i + 1}`,
        })),
      }),
    }),
    rows: {
      ...metadataRows,
      'metadata.namespace': [anything, 'ignored'],
      spec: [noObject],
      // Repeats the first of the list, which counts.
      'spec.podCIDR': [anything, 'ignored'],
      'spec.podCIDRs': [noList],
      'spec.podCIDRs.*': [noCidr],
      'spec.taints': [noList],
      'spec.taints.*': [noObject],
      'spec.taints.*.key': [noText],
      status: [noObject],
      'status.addresses': [noList],
      'status.addresses.*': [noObject],
      'status.addresses.*.type': [noText],
      'status.addresses.*.address': [noAddress],
    },
  },
  ServiceCIDR: {
    sample: fc.record({
      apiVersion: fc.constant('networking.k8s.io/v1'),
      kind: fc.constant('ServiceCIDR'),
      metadata: fc.constant(metadata),
      spec: fc.constant({ cidrs: ['10.96.0.0/12', 'fd00::/112'] }),
    }),
    rows: {
      ...metadataRows,
      'metadata.namespace': [anything, 'ignored'],
      spec: [noObject, 'object'],
      'spec.cidrs': [noList, 'object'],
      'spec.cidrs.*': [noCidr],
    },
  },
}

type Path = readonly string[]

/** As a row calls it: an index of a list is `*`. */
const rowOf = (path: Path): string =>
  path.map(key => (/^\d+$/.test(key) ? '*' : key)).join('.')

/** Which values decoding asks for, also where there is none. */
const askedFor = (raw: unknown): readonly Path[] => {
  const asked = new Map<string, Path>()
  const watched = (value: unknown, path: Path): unknown => {
    if (typeof value !== 'object' || value === null) return value
    const note = (key: string | symbol): void => {
      if (typeof key === 'symbol' || key in Array.prototype || key === 'toJSON') return
      asked.set([...path, key].join('.'), [...path, key])
    }
    return new Proxy(value, {
      get: (target, key, self) => {
        note(key)
        const inner: unknown = Reflect.get(target, key, self)
        return typeof key === 'string' ? watched(inner, [...path, key]) : inner
      },
      has: (target, key) => (note(key), Reflect.has(target, key)),
      getOwnPropertyDescriptor: (target, key) => (
        note(key),
        Reflect.getOwnPropertyDescriptor(target, key)
      ),
    })
  }
  decode(watched(raw, []))
  return [...asked.values()].filter(
    path => !['apiVersion', 'kind'].includes(path[0] ?? ''),
  )
}

/** Rows that a sample has a value for, with all places of each. */
const placesIn = (raw: unknown, rows: Kind['rows'], path: Path = []): readonly Path[] => [
  ...(rowOf(path) in rows ? [path] : []),
  ...(typeof raw === 'object' && raw !== null
    ? Object.entries(raw).flatMap(([key, inner]) => placesIn(inner, rows, [...path, key]))
    : []),
]

const spoilt = (raw: unknown, [key, ...more]: Path, odd: unknown): unknown => {
  if (key === undefined) return odd
  const copy = (Array.isArray(raw) ? [...raw] : { ...(raw as object) }) as Fields
  copy[key] = spoilt(copy[key], more, odd)
  return copy
}

const decodedAs = (raw: unknown, strict: boolean): DecodedObject => {
  const object = decode(raw, strict)
  if (!('key' in object)) throw new Error(`not decoded: ${JSON.stringify(object)}`)
  return object
}

const objectsOf = ({ changes }: DecodedObject): Fields[] =>
  changes.map(({ object }) => object as unknown as Fields)

/** Lists lose one entry at most, or all where the list itself is odd; what limits who may come stays. */
const widened = (
  before: DecodedObject,
  after: DecodedObject,
  isEntry: boolean,
): string[] => {
  const [old = {}] = objectsOf(before)
  const [now = {}] = objectsOf(after)
  return Object.entries(old).flatMap(([name, value]) => {
    const left = now[name]
    if (name === 'sourceRanges') return Array.isArray(left) ? [] : [`${name} is open`]
    if (!Array.isArray(value) || !Array.isArray(left)) return []
    if (left.length > value.length) return [`${name} has grown`]
    return isEntry && left.length < value.length - 1 ? [`${name} lost more than one`] : []
  })
}

for (const [kind, { sample, rows }] of Object.entries(kinds)) {
  t.test(`${kind}: each value that is looked at is in the table`, async t => {
    const raw = fc.sample(sample, { numRuns: 1, seed: 1 })[0]
    const unknown = askedFor(raw).map(rowOf)
    t.strictSame(
      [...new Set(unknown)].filter(row => !(row in rows)),
      [],
    )
    t.ok(unknown.length >= Object.keys(rows).length / 2, 'it has been watched')
  })

  t.test(`${kind}: one odd value costs its part, with one problem`, async t => {
    const spoiling = sample.chain(raw =>
      fc.constantFrom(...placesIn(raw, rows)).chain(path => {
        const [odd, outcome = 'part'] = rows[rowOf(path)] ?? [anything]
        return fc.record({
          raw: fc.constant(raw),
          path: fc.constant(path),
          outcome: fc.constant(outcome),
          odd,
          strict: fc.boolean(),
        })
      }),
    )
    fc.assert(
      fc.property(spoiling, ({ raw, path, odd, outcome, strict }) => {
        const before = decodedAs(raw, strict)
        const after = decodedAs(spoilt(raw, path, odd), strict)
        const problems = [...before.problems, ...after.problems].map(
          ({ field, message }) => `${field}: ${message}`,
        )
        if (problems.length !== (outcome === 'ignored' ? 0 : 1))
          throw new Error(problems.join('; ') || 'no problem')
        if (outcome === 'object') return after.changes.length === 0 && after.unread
        if (after.changes.length === 0) throw new Error('lost')
        const faults = widened(before, after, /\d/.test(path.join('.')))
        if (faults.length > 0) throw new Error(faults.join('; '))
        return true
      }),
      { numRuns: 500 },
    )
    t.pass()
  })
}
