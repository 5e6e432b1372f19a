import t from 'tap'
import type { Service } from '../../../src/model/service.ts'
import { decode } from '../../../src/source/decode/decode.ts'
import { undated } from '../../../src/source/decode/service.ts'
import { decoded, faultsOf, objectOf, service, type Fields } from './raw-objects.ts'

/** What is kept of a v1 Service. */
t.test('Services', async t => {
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
      unread: false,
      invalid: [],
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
            internalTrafficPolicy: 'Cluster',
            externalTrafficPolicy: 'Cluster',
            sourceRanges: undefined,
            healthCheckNodePort: 0,
          },
        },
      ],
    })
  })

  t.test('a Service gets the API server’s defaults for what it leaves out', async t => {
    t.strictSame(objectOf(service({ sessionAffinity: 'ClientIP' })), {
      namespace: 'default',
      name: 'web',
      createdAt: undated,
      clusterIPs: ['10.96.0.10'],
      externalIPs: [],
      loadBalancerIPs: [],
      ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
      affinityMs: 10_800_000,
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      sourceRanges: undefined,
      healthCheckNodePort: 0,
    })
    const unwanted = { sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } }
    t.match(objectOf(service(unwanted)), { affinityMs: 0 })
  })

  t.test('traffic policies are kept where they mean something', async t => {
    const local = { externalTrafficPolicy: 'Local', healthCheckNodePort: 32000 }
    const table: [why: string, spec: Fields, expected: Fields][] = [
      [
        'none given',
        { type: 'LoadBalancer', internalTrafficPolicy: null },
        { internalTrafficPolicy: 'Cluster', externalTrafficPolicy: 'Cluster' },
      ],
      [
        'internal',
        { internalTrafficPolicy: 'Local' },
        { internalTrafficPolicy: 'Local' },
      ],
      [
        'external of a load balancer, with a health check',
        { type: 'LoadBalancer', ...local },
        { externalTrafficPolicy: 'Local', healthCheckNodePort: 32000 },
      ],
      [
        'external of node ports, without one',
        { type: 'NodePort', ...local },
        { externalTrafficPolicy: 'Local', healthCheckNodePort: 0 },
      ],
      [
        'external of a ClusterIP with external IPs',
        { type: 'ClusterIP', externalIPs: ['192.0.2.1'], ...local },
        { externalTrafficPolicy: 'Local', healthCheckNodePort: 0 },
      ],
      [
        'external of a bare ClusterIP means nothing',
        { ...local },
        { externalTrafficPolicy: 'Cluster', healthCheckNodePort: 0 },
      ],
      [
        'no health check while the policy is Cluster',
        { type: 'LoadBalancer', healthCheckNodePort: 32000 },
        { healthCheckNodePort: 0 },
      ],
    ]
    for (const [why, spec, expected] of table)
      t.match(objectOf(service(spec)), expected, why)
  })

  t.test('a bad value costs its part; what limits who may come stays', async t => {
    const web = { ports: [{ port: 80, nodePort: 30_080 }] }
    const ingress = (...ips: unknown[]): Fields => ({
      status: { loadBalancer: { ingress: ips } },
    })
    const table: [why: string, raw: Fields, expected: Fields][] = [
      [
        'load-balancer IPs',
        service({}, {}, ingress({ ip: '0.0.0.0' }, { ip: '::' }, { ip: '203.0.113.7' })),
        { clusterIPs: ['10.96.0.10'], loadBalancerIPs: ['203.0.113.7'] },
      ],
      [
        'an unknown mode of one',
        service({}, {}, ingress({ ip: '203.0.113.7', ipMode: 'Later' })),
        { loadBalancerIPs: [] },
      ],
      [
        'an unknown type with a policy',
        service({ ...web, type: 'Gateway', externalTrafficPolicy: 'Local' }),
        { externalTrafficPolicy: 'Local', ports: [{ nodePort: 30_080 }] },
      ],
      [
        'a port of a protocol to come',
        service({
          ports: [
            { name: 'a', port: 443, protocol: 'QUIC' },
            { name: 'b', port: 443 },
          ],
        }),
        { ports: [{ name: 'b', protocol: 'TCP', port: 443 }] },
      ],
      [
        'an address of the cluster',
        service({ clusterIP: undefined, clusterIPs: ['0.0.0.0', 'fd00::a'] }),
        { clusterIPs: ['fd00::a'] },
      ],
      ['a label', service({}, { labels: 5 }), { name: 'web' }],
    ]
    for (const [why, raw, expected] of table) t.match(objectOf(raw), expected, why)
  })

  t.test('source ranges are canonical, and bad ones let nobody in', async t => {
    const right = 'is not a CIDR; give one like 192.0.2.0/24 or 2001:db8::/32'
    const field = 'spec.loadBalancerSourceRanges'
    const table: [given: unknown, ranges: string[] | undefined, ...faults: string[]][] = [
      [undefined, undefined],
      [[], undefined],
      [
        [' 192.0.2.7/24 ', 'FD00::1/64', 'fd00::/64'],
        ['192.0.2.0/24', 'fd00::/64'],
      ],
      [['0.0.0.0/0'], ['0.0.0.0/0']],
      [
        ['203.0.113.000/025', '010.0.0.0/08', '::ffff:010.0.0.0/104'],
        ['203.0.113.0/25', '10.0.0.0/8'],
      ],
      [
        ['192.0.2.0/24', '192.0.2.1', '192.0.2.0/33', '192.0.2.0/+8', '192.0.2.0/'],
        ['192.0.2.0/24'],
        `${field}[1]: "192.0.2.1" ${right}`,
        `${field}[2]: "192.0.2.0/33" ${right}`,
        `${field}[3]: "192.0.2.0/+8" ${right}`,
        `${field}[4]: "192.0.2.0/" ${right}`,
      ],
      [['everybody'], [], `${field}[0]: "everybody" ${right}`],
      [[5], [], `${field}[0]: 5 ${right}`],
      [[null, '192.0.2.0/24'], ['192.0.2.0/24'], `${field}[0]: null ${right}`],
      [{}, [], `${field}: an object is not a list; no client is admitted`],
    ]
    for (const [given, ranges, ...faults] of table) {
      const raw = service({ type: 'LoadBalancer', loadBalancerSourceRanges: given })
      const object = objectOf(raw) as Service | undefined
      t.strictSame(object?.sourceRanges, ranges)
      t.strictSame(faultsOf(raw), faults)
    }
  })

  t.test(
    'SCTP is a protocol like the others: what it comes to the mode says',
    async t => {
      const raw = service({
        ports: [
          { name: 'a', port: 80 },
          { name: 'b', port: 80, protocol: 'SCTP', nodePort: 30000 },
          { name: 'c', port: 80, protocol: 'UDP' },
        ],
      })
      t.strictSame(faultsOf(raw), [])
      t.match(objectOf(raw), {
        ports: [
          { name: 'a', protocol: 'TCP' },
          { name: 'b', protocol: 'SCTP', port: 80, nodePort: 30000 },
          { name: 'c', protocol: 'UDP' },
        ],
      })
    },
  )

  t.test('loopback and links are no addresses of a Service from the API', async t => {
    const ips = ['127.0.0.1', '169.254.169.254', '192.0.2.1', '::1', 'fe80::1', '127.8']
    const ingress = ips.map(ip => ({ ip }))
    const raw = service(
      { externalIPs: ips },
      {},
      { status: { loadBalancer: { ingress } } },
    )
    const special = 8
    for (const [strict, left] of [
      [true, ['192.0.2.1']],
      [false, ips.slice(0, -1)],
    ] as const) {
      const found = decode(raw, strict)
      if (!('key' in found)) throw new Error('not decoded')
      const object = found.changes[0]?.object as Service
      t.strictSame([object.externalIPs, object.loadBalancerIPs], [left, left])
      t.equal((strict ? found.problems.slice(2) : found.invalid).length, special)
    }
  })

  t.test('a creation time may be a Date, as the API client gives it', async t => {
    const raw = service({}, { creationTimestamp: new Date(1234) })
    t.match(objectOf(raw), { createdAt: 1234 })
  })

  t.test('a Service with an address is served, whatever its label says', async t => {
    // kube-proxy 1.36 selects slices by that label, and Services by spec.clusterIP.
    const labels = { 'service.kubernetes.io/headless': '' }
    const { changes, ignored } = decoded(service({}, { labels }))
    t.equal(changes.length, 1)
    t.equal(ignored, '')
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
        'spec.ports[0].protocol: "QUIC" is not a protocol: TCP, UDP or SCTP',
      ],
      [
        service({ ports: [{ port: 80, protocol: 'tcp' }] }),
        'spec.ports[0].protocol: "tcp" is not a protocol: TCP, UDP or SCTP',
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
        service({ externalIPs: ['unix:/run/db.sock'] }),
        'spec.externalIPs[0]: "unix:/run/db.sock" is not an IP address',
      ],
      [
        service({ clusterIP: '0x10.0.0.1' }),
        'spec.clusterIP: "0x10.0.0.1" is not an IP address',
      ],
      [
        service({ clusterIP: undefined }),
        'spec.clusterIP: is missing; give the address that clients dial, or None for a headless Service',
      ],
      [
        service({ clusterIPs: ['10.96.0.10', '10.96.0.11'] }),
        'spec.clusterIPs[1]: is a second IPv4 address; give one of each family at most',
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
        'spec.type: "Clusterip" is not one of ClusterIP, NodePort, LoadBalancer, ExternalName; it is taken for ClusterIP',
      ],
      [
        service({ internalTrafficPolicy: 'local', externalTrafficPolicy: 'Node' }),
        'spec.internalTrafficPolicy: "local" is not one of Cluster, Local; it is taken for Cluster',
        'spec.externalTrafficPolicy: "Node" is not one of Cluster, Local; it is taken for Cluster',
      ],
      [
        service({ loadBalancerSourceRanges: '10.0.0.0/8' }),
        'spec.loadBalancerSourceRanges: "10.0.0.0/8" is not a list; no client is admitted',
      ],
      [
        service({ healthCheckNodePort: 70000 }),
        'spec.healthCheckNodePort: 70000 is not a node port: 1 to 65535, or 0 for none',
      ],
      [
        service({ sessionAffinity: 'Cookie' }),
        'spec.sessionAffinity: "Cookie" is not one of None, ClientIP; it is taken for None',
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
      const isWhole = faults.some(fault =>
        /^(metadata(\.name|\.namespace)?|spec): /.test(fault),
      )
      t.equal(decoded(raw).changes.length, isWhole ? 0 : 1, faults.join())
    }
  })
})
