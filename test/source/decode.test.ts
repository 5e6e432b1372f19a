import type { V1EndpointSlice, V1Service } from '@kubernetes/client-node'
import * as fc from 'fast-check'
import t from 'tap'
import { decode, type DecodedObject } from '../../src/source/decode/decode.ts'
import { decodeService } from '../../src/source/decode/service.ts'

type Fields = Record<string, unknown>

const made = 7

const result = (raw: unknown) => decode(raw, () => made)

const decoded = (raw: unknown): DecodedObject => {
  const object = result(raw)
  if (!('key' in object)) throw new Error(`not decoded: ${JSON.stringify(object)}`)
  return object
}

const service = (
  spec: Fields = {},
  metadata: Fields = {},
  more: Fields = {},
): Fields => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'web', ...metadata },
  spec: { clusterIP: '10.96.0.10', ports: [{ port: 80 }], ...spec },
  ...more,
})

const slice = (body: Fields = {}, metadata: Fields = {}): Fields => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: 'web-1',
    labels: { 'kubernetes.io/service-name': 'web' },
    ...metadata,
  },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.0.0.1'] }],
  ports: [{ port: 8080 }],
  ...body,
})

/** The one object that was decoded, whatever its kind. */
const objectOf = (raw: unknown): unknown => decoded(raw).changes[0]?.object

const faultsOf = (raw: unknown): string[] =>
  decoded(raw).problems.map(({ field, message }) => `${field}: ${message}`)

t.test('a Service keeps what Usher serves, in canonical spelling', async t => {
  const raw = service(
    {
      clusterIPs: ['10.96.0.10', 'FD00:0:0::0A'],
      externalIPs: ['192.0.2.1', '192.0.2.1', '::ffff:192.0.2.2'],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      ports: [
        { name: 'dns', port: 53, protocol: 'UDP', nodePort: 30053, targetPort: 'dns' },
        { name: 'dns-tcp', port: 53, nodePort: 30053, appProtocol: null },
      ],
    },
    { namespace: 'shop', creationTimestamp: '2024-01-02T03:04:05Z' },
    {
      status: {
        loadBalancer: {
          ingress: [
            { ip: '198.51.100.1' },
            { ip: '198.51.100.2', ipMode: 'VIP' },
            { ip: '198.51.100.3', ipMode: 'Proxy' },
            { hostname: 'lb.example' },
          ],
        },
      },
    },
  )
  t.strictSame(decoded(raw), {
    key: 'Service shop/web',
    title: 'Service shop/web',
    problems: [],
    ignored: '',
    changes: [
      {
        kind: 'Service',
        namespace: 'shop',
        name: 'web',
        object: {
          namespace: 'shop',
          name: 'web',
          createdAt: Date.UTC(2024, 0, 2, 3, 4, 5),
          clusterIPs: ['10.96.0.10', 'fd00::a'],
          externalIPs: ['192.0.2.1', '192.0.2.2'],
          loadBalancerIPs: ['198.51.100.1', '198.51.100.2'],
          ports: [
            { name: 'dns', protocol: 'UDP', port: 53, nodePort: 30053 },
            { name: 'dns-tcp', protocol: 'TCP', port: 53, nodePort: 30053 },
          ],
          affinityMs: 60_000,
        },
      },
    ],
  })
})

t.test('a Service gets the API server’s defaults for what it leaves out', async t => {
  t.strictSame(objectOf(service({ sessionAffinity: 'ClientIP' })), {
    namespace: 'default',
    name: 'web',
    createdAt: made,
    clusterIPs: ['10.96.0.10'],
    externalIPs: [],
    loadBalancerIPs: [],
    ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
    affinityMs: 10_800_000,
  })
  const unwanted = { sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } }
  t.match(objectOf(service(unwanted)), { affinityMs: 0 })
})

t.test('a creation time may be a Date, as the API client gives it', async t => {
  const { object } = decodeService(
    service({}, { creationTimestamp: new Date(1234) }),
    () => made,
  )
  t.equal(object?.createdAt, 1234)
})

t.test(
  'Services that are no business of Usher’s are ignored without a problem',
  async t => {
    const cases: [string, Fields, string][] = [
      ['headless', service({ clusterIP: 'None' }), 'it is headless'],
      ['headless by clusterIPs', service({ clusterIPs: ['None'] }), 'it is headless'],
      ['an empty clusterIP', service({ clusterIP: '' }), 'it is headless'],
      [
        'ExternalName',
        service({ type: 'ExternalName', clusterIP: undefined, ports: undefined }),
        'type ExternalName has no address',
      ],
      [
        'another proxy’s',
        service(
          { ports: 'x' },
          { labels: { 'service.kubernetes.io/service-proxy-name': '' } },
        ),
        'the label service.kubernetes.io/service-proxy-name leaves it to another proxy',
      ],
      [
        'labelled headless',
        service({}, { labels: { 'service.kubernetes.io/headless': '' } }),
        'the label service.kubernetes.io/headless makes it headless',
      ],
    ]
    for (const [name, raw, ignored] of cases) {
      const object = decoded(raw)
      t.strictSame(
        [object.changes, object.problems, object.ignored],
        [[], [], ignored],
        name,
      )
      t.equal(object.key, 'Service default/web', name)
    }
  },
)

t.test('bad values of a Service are named by field and say what is right', async t => {
  const sctp =
    'Usher cannot carry SCTP: Node has no SCTP sockets; give TCP or UDP, or use a kernel mode (iptables, ipvs, nftables)'
  const name = 'is not a name: lower-case letters, digits, "-" and ".", at most 253'
  const label = 'is not a name: lower-case letters, digits and "-", at most 63'
  const cases: [Fields, ...string[]][] = [
    [
      service({ ports: [{ port: 70000 }] }),
      'spec.ports[0].port: 70000 is not a port: 1 to 65535',
    ],
    [
      service({ ports: [{ port: 0 }] }),
      'spec.ports[0].port: 0 is not a port: 1 to 65535',
    ],
    [
      service({ ports: [{ port: '80' }] }),
      'spec.ports[0].port: "80" is not a port: 1 to 65535',
    ],
    [
      service({ ports: [{ port: 80.5 }] }),
      'spec.ports[0].port: 80.5 is not a port: 1 to 65535',
    ],
    [service({ ports: [{}] }), 'spec.ports[0].port: is missing'],
    [
      service({ ports: [{ port: 80, nodePort: 70000 }] }),
      'spec.ports[0].nodePort: 70000 is not a node port: 1 to 65535, or 0 for none',
    ],
    [
      service({ ports: [{ port: 80, protocol: 'QUIC' }] }),
      'spec.ports[0].protocol: "QUIC" is not a protocol: TCP or UDP',
    ],
    [
      service({ ports: [{ port: 80, protocol: 'tcp' }] }),
      'spec.ports[0].protocol: "tcp" is not a protocol: TCP or UDP',
    ],
    [
      service({ ports: [{ port: 80, protocol: 'SCTP' }] }),
      `spec.ports[0].protocol: ${sctp}`,
    ],
    [service({ ports: [] }), 'spec.ports: is empty; a Service needs a port'],
    [service({ ports: {} }), 'spec.ports: an object is not a list'],
    [
      service({ ports: [{ port: 80 }, { name: 'b', port: 81 }] }),
      'spec.ports[0].name: is missing; with several ports each needs a name',
    ],
    [
      service({
        ports: [
          { name: 'a', port: 80 },
          { name: 'a', port: 81 },
        ],
      }),
      'spec.ports[1].name: the name "a" is taken by spec.ports[0].name',
    ],
    [
      service({
        ports: [
          { name: 'a', port: 80, nodePort: 30000 },
          { name: 'b', port: 80, nodePort: 30000 },
        ],
      }),
      'spec.ports[1].port: TCP port 80 is taken by spec.ports[0].port',
      'spec.ports[1].nodePort: TCP node port 30000 is taken by spec.ports[0].nodePort',
    ],
    [
      service({ ports: [{ name: 'A\nB', port: 80 }] }),
      `spec.ports[0].name: "A\\u000aB" ${label}`,
    ],
    [
      service({ clusterIP: '10.96.0.256' }),
      'spec.clusterIP: "10.96.0.256" is not an IP address',
    ],
    [
      service({ clusterIP: '010.0.0.1' }),
      'spec.clusterIP: "010.0.0.1" is not an IP address',
    ],
    [
      service({ clusterIP: undefined }),
      'spec.clusterIP: is missing; give the address that clients dial, or None for a headless Service',
    ],
    [
      service({ clusterIPs: ['10.96.0.10', '10.96.0.11'] }),
      'spec.clusterIPs: holds more than one IPv4 address; give one of each family at most',
    ],
    [
      service({ externalIPs: ['192.0.2.1', '0.0.0.0', '224.0.0.1', '::ffff:0.0.0.0'] }),
      'spec.externalIPs[1]: "0.0.0.0" is not the address of one host',
      'spec.externalIPs[2]: "224.0.0.1" is not the address of one host',
      'spec.externalIPs[3]: "::ffff:0.0.0.0" is not the address of one host',
    ],
    [
      service({}, {}, { status: { loadBalancer: { ingress: [{}, { ip: 'x' }] } } }),
      'status.loadBalancer.ingress[1].ip: "x" is not an IP address',
    ],
    [
      service({ type: 'Clusterip' }),
      'spec.type: "Clusterip" is not one of ClusterIP, NodePort, LoadBalancer, ExternalName',
    ],
    [
      service({ sessionAffinity: 'Cookie' }),
      'spec.sessionAffinity: "Cookie" is not None or ClientIP',
    ],
    [
      service({ sessionAffinityConfig: { clientIP: { timeoutSeconds: 86401 } } }),
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds: 86401 is not an affinity timeout: 1 to 86400 seconds',
    ],
    [
      service({}, { creationTimestamp: 'yesterday' }),
      'metadata.creationTimestamp: "yesterday" is not a time',
    ],
    [service({}, { name: 'Web' }), `metadata.name: "Web" ${name}`],
    [
      service({}, { name: `a${'b'.repeat(253)}` }),
      `metadata.name: "a${'b'.repeat(79)}..." ${name}`,
    ],
    [service({}, { namespace: 'a.b' }), `metadata.namespace: "a.b" ${label}`],
    [{ ...service(), metadata: undefined }, 'metadata: nothing is not an object'],
    [{ apiVersion: 'v1', kind: 'Service' }, 'metadata: is missing'],
    [{ ...service(), spec: undefined }, 'spec: nothing is not an object'],
  ]
  for (const [raw, ...faults] of cases) {
    t.strictSame(faultsOf(raw), faults)
    t.strictSame(decoded(raw).changes, [], 'the object is refused as a whole')
  }
})

t.test('all faults of one object are told at once, up to a bound', async t => {
  const bad = { port: 70000, protocol: 'SCTP', nodePort: -1 }
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

t.test(
  'an EndpointSlice keeps first addresses, conditions and numbered ports',
  async t => {
    const raw = slice({
      endpoints: [
        { addresses: ['10.0.0.1', 'ignored'], nodeName: 'n1', zone: 'z1' },
        { addresses: ['10.0.0.2'], conditions: { ready: null, serving: null } },
        {
          addresses: ['10.0.0.3'],
          conditions: { ready: false, serving: true, terminating: true },
          zone: 'not a label',
        },
      ],
      ports: [
        { name: null, port: 8080 },
        { name: 'a', port: null },
        { name: 'b', port: 0 },
        { name: 'c', port: 9, protocol: 'SCTP' },
        { name: 'd', port: 53, protocol: 'UDP' },
      ],
    })
    const up = { ready: true, serving: true, terminating: false }
    t.strictSame(decoded(raw).changes, [
      {
        kind: 'EndpointSlice',
        namespace: 'default',
        name: 'web-1',
        object: {
          namespace: 'default',
          name: 'web-1',
          serviceName: 'web',
          family: 'IPv4',
          endpoints: [
            { address: '10.0.0.1', ...up, nodeName: 'n1', zone: 'z1' },
            { address: '10.0.0.2', ...up, nodeName: '', zone: '' },
            {
              address: '10.0.0.3',
              ready: false,
              serving: true,
              terminating: true,
              nodeName: '',
              zone: '',
            },
          ],
          ports: [
            { name: '', protocol: 'TCP', port: 8080 },
            { name: 'd', protocol: 'UDP', port: 53 },
          ],
        },
      },
    ])
  },
)

t.test('a slice without endpoints or ports is sound', async t => {
  t.match(objectOf(slice({ endpoints: null, ports: null })), { endpoints: [], ports: [] })
})

t.test('bad values of an EndpointSlice are named by field', async t => {
  const label = 'metadata.labels["kubernetes.io/service-name"]'
  const cases: [Fields, ...string[]][] = [
    [
      slice({ endpoints: [{ addresses: ['10.0.0.1'] }, { addresses: ['10.0.0'] }] }),
      'endpoints[1].addresses[0]: "10.0.0" is not an IP address',
    ],
    [
      slice({ addressType: 'IPv6' }),
      'endpoints[0].addresses[0]: "10.0.0.1" is not an IPv6 address, as addressType says',
    ],
    [
      slice({ endpoints: [{ addresses: [] }] }),
      'endpoints[0].addresses[0]: is missing; an endpoint needs an address',
    ],
    [
      slice({ endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: 'yes' } }] }),
      'endpoints[0].conditions.ready: "yes" is not true or false',
    ],
    [
      slice({ ports: [{ port: 70000 }] }),
      'ports[0].port: 70000 is not a port: 1 to 65535',
    ],
    [
      slice({ ports: [{ port: 1, protocol: 'X' }] }),
      'ports[0].protocol: "X" is not a protocol: TCP or UDP',
    ],
    [slice({ addressType: 'IPv5' }), 'addressType: "IPv5" is not IPv4, IPv6 or FQDN'],
    [
      slice({}, { labels: {} }),
      `${label}: is missing; it names the Service that the endpoints belong to`,
    ],
    [
      slice({}, { labels: { 'kubernetes.io/service-name': 'W\t' } }),
      `${label}: "W\\u0009" is not the name of a Service`,
    ],
  ]
  for (const [raw, ...faults] of cases) t.strictSame(faultsOf(raw), faults)
})

t.test('slices of host names and headless ones are ignored', async t => {
  const names = slice({ addressType: 'FQDN', endpoints: [{ addresses: ['db.example'] }] })
  t.match(decoded(names), { changes: [], problems: [], ignored: /FQDN/ })
  const headless = slice({}, { labels: { 'service.kubernetes.io/headless': '' } })
  t.match(decoded(headless), { changes: [], problems: [], ignored: /headless/ })
})

t.test('Endpoints become one slice for each subset and family', async t => {
  const raw = {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { name: 'web', namespace: 'shop' },
    subsets: [
      {
        addresses: [{ ip: '10.0.0.1', nodeName: 'n1' }, { ip: 'fd00::1' }],
        notReadyAddresses: [{ ip: '10.0.0.2' }],
        ports: [{ port: 80 }, { name: 'x', port: 9, protocol: 'SCTP' }],
      },
      { addresses: [{ ip: '10.0.0.3' }], ports: [{ name: 'alt', port: 81 }] },
    ],
  }
  const slices = decoded(raw).changes.map(({ object }) => object)
  t.match(slices, [
    {
      name: 'endpoints/web/0/IPv4',
      serviceName: 'web',
      endpoints: [
        { address: '10.0.0.1', ready: true, serving: true, nodeName: 'n1' },
        { address: '10.0.0.2', ready: false, serving: false, terminating: false },
      ],
      ports: [{ name: '', protocol: 'TCP', port: 80 }],
    },
    { name: 'endpoints/web/0/IPv6', endpoints: [{ address: 'fd00::1' }] },
    { name: 'endpoints/web/1/IPv4', ports: [{ name: 'alt', port: 81 }] },
  ])
  t.equal(slices.length, 3)
  const bad = { ...raw, subsets: [{ notReadyAddresses: [{ ip: '::' }] }] }
  t.strictSame(faultsOf(bad), [
    'subsets[0].notReadyAddresses[0].ip: "::" is not the address of one host',
  ])
})

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
      object: { name: 'n1.example', zone: 'z1', addresses: ['10.0.0.1', '192.0.2.1'] },
    },
  ])
  t.equal(decoded(raw).key, 'Node n1.example')
  const bad = { ...raw, status: { addresses: [{ type: 'InternalIP', address: 'n1' }] } }
  t.strictSame(faultsOf(bad), ['status.addresses[0].address: "n1" is not an IP address'])
})

t.test('other kinds and versions are skipped, other things are malformed', async t => {
  t.strictSame(result({ apiVersion: 'apps/v1', kind: 'Deployment' }), {
    skipped: 'apps/v1 Deployment',
  })
  t.strictSame(result({ ...slice(), apiVersion: 'discovery.k8s.io/v1beta1' }), {
    skipped: 'discovery.k8s.io/v1beta1 EndpointSlice',
  })
  t.strictSame(result({ apiVersion: 'v1', kind: 'Po\nd' }), {
    skipped: String.raw`v1 Po\u000ad`,
  })
  const malformed: [unknown, RegExp][] = [
    ['apiVersi', /^is not an object/],
    [[], /^is not an object/],
    [null, /^is not an object/],
    [{ kind: 'Service' }, /^has no apiVersion/],
    [{ apiVersion: 'v1' }, /^has no kind/],
    [{ apiVersion: 'v1', kind: ['Service'] }, /^has no kind/],
  ]
  for (const [raw, message] of malformed) t.match(result(raw), { malformed: message })
})

t.test('no input makes decoding throw, or say anything unprintable', async t => {
  const kinds = [
    'v1 Service',
    'v1 Endpoints',
    'v1 Node',
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
        const outcomes = [object.changes, object.problems].filter(list => list.length > 0)
        const empty = object.ignored !== '' || object.title.startsWith('Endpoints')
        return (
          said.every(text => /^[\x20-\x7e]*$/.test(String(text))) &&
          (outcomes.length === 1 || (outcomes.length === 0 && empty))
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
