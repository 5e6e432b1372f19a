import t from 'tap'
import type { EndpointSlice } from '../../../src/model/service.ts'
import { decoded, faultsOf, objectOf, slice, type Fields } from './raw-objects.ts'

/** What is kept of EndpointSlices and v1 Endpoints. */
t.test('EndpointSlices', async t => {
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
      const unhinted = { zoneHints: [], nodeHints: [] }
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
              { address: '10.0.0.1', ...up, nodeName: 'n1', zone: 'z1', ...unhinted },
              { address: '10.0.0.2', ...up, nodeName: '', zone: '', ...unhinted },
              {
                address: '10.0.0.3',
                ready: false,
                serving: true,
                terminating: true,
                nodeName: '',
                zone: '',
                ...unhinted,
              },
            ],
            ports: [
              { name: '', protocol: 'TCP', port: 8080 },
              { name: 'c', protocol: 'SCTP', port: 9 },
              { name: 'd', protocol: 'UDP', port: 53 },
            ],
            lastChangeTriggerTime: 0,
          },
        },
      ])
    },
  )

  t.test('a slice without endpoints or ports is sound', async t => {
    t.match(objectOf(slice({ endpoints: null, ports: null })), {
      endpoints: [],
      ports: [],
    })
  })

  t.test('leading zeros of an IPv4 address are decimal, as in the API', async t => {
    const endpoints = [{ addresses: ['010.0.00.009'] }, { addresses: ['10.0.0.10'] }]
    t.match(objectOf(slice({ endpoints })), {
      endpoints: [{ address: '10.0.0.9' }, { address: '10.0.0.10' }],
    })
    const mapped = [{ addresses: ['::ffff:010.000.0.9'] }]
    t.match(objectOf(slice({ endpoints: mapped })), {
      endpoints: [{ address: '10.0.0.9' }],
    })
  })

  t.test('bad values of an EndpointSlice are named by field', async t => {
    const label = 'metadata.labels["kubernetes.io/service-name"]'
    const cases: [Fields, ...string[]][] = [
      [
        slice({ endpoints: [{ addresses: ['10.0.0.1'] }, { addresses: ['10.0.0'] }] }),
        'endpoints[1].addresses[0]: "10.0.0" is not an IP address',
      ],
      [
        // Routes have these: no Service may lead to a socket of the node.
        slice({ endpoints: [{ addresses: ['unix:/run/docker.sock'] }] }),
        'endpoints[0].addresses[0]: "unix:/run/docker.sock" is not an IP address',
      ],
      [
        slice({ addressType: 'IPv6' }),
        'endpoints[0].addresses[0]: "10.0.0.1" is not an IPv6 address, although addressType says so',
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
        'ports[0].protocol: "X" is not a protocol: TCP, UDP or SCTP',
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

  t.test('a bad value costs its endpoint, its port or less', async t => {
    const good = { addresses: ['10.0.0.2'] }
    const table: [why: string, body: Fields, expected: Fields][] = [
      [
        'an address',
        { endpoints: [{ addresses: ['224.0.0.1'] }, good] },
        { endpoints: [{ address: '10.0.0.2' }] },
      ],
      [
        'a condition',
        { endpoints: [{ ...good, conditions: { ready: false, serving: 'yes' } }] },
        { endpoints: [{ ready: false, serving: true }] },
      ],
      [
        'a protocol',
        {
          ports: [
            { port: 1, protocol: 'QUIC' },
            { name: 'b', port: 2 },
          ],
        },
        { ports: [{ name: 'b' }] },
      ],
      [
        'what its addresses are called',
        { addressType: 'Later', endpoints: [{ addresses: ['fd00::1'] }] },
        { family: 'IPv6', endpoints: [{ address: 'fd00::1' }] },
      ],
    ]
    for (const [why, body, expected] of table) {
      const { changes, problems, unread } = decoded(slice(body))
      t.match(changes, [{ object: expected }], why)
      t.strictSame([problems.length, unread], [1, false], why)
    }
    t.ok(decoded(slice({ endpoints: [{ addresses: ['x'] }] })).unread, 'nothing is left')
  })

  t.test('hints of an endpoint are kept by name', async t => {
    const raw = slice({
      endpoints: [
        {
          addresses: ['10.0.0.1'],
          hints: { forZones: [{ name: 'a' }, { name: 'b' }], forNodes: [{ name: 'n1' }] },
        },
        { addresses: ['10.0.0.2'], hints: { forZones: [{ name: 'no zone' }] } },
        { addresses: ['10.0.0.3'], hints: null },
      ],
    })
    const { endpoints } = objectOf(raw) as EndpointSlice
    t.strictSame(
      endpoints.map(({ zoneHints, nodeHints }) => [zoneHints, nodeHints]),
      [
        [['a', 'b'], ['n1']],
        [[], []],
        [[], []],
      ],
    )
    const bad = slice({
      endpoints: [{ addresses: ['10.0.0.1'], hints: { forZones: ['a'] } }],
    })
    t.strictSame(faultsOf(bad), ['endpoints[0].hints.forZones[0]: "a" is not an object'])
  })

  t.test('when what a slice reports happened is read to the millisecond', async t => {
    const at = (value: unknown): number | undefined =>
      (
        objectOf(
          slice(
            {},
            {
              labels: { 'kubernetes.io/service-name': 'web' },
              annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': value },
            },
          ),
        ) as EndpointSlice | undefined
      )?.lastChangeTriggerTime
    const ms = Date.UTC(2026, 6, 1, 10, 0, 0)
    const table: [given: unknown, expected: number][] = [
      ['2026-07-01T10:00:00Z', ms],
      ['2026-07-01T10:00:00.5Z', ms + 500],
      ['2026-07-01T10:00:00.123456789Z', ms + 123],
      ['2026-07-01T12:00:00.123456+02:00', ms + 123],
      ['2026-07-01T10:00:00', 0],
      ['2026-13-01T10:00:00Z', 0],
      ['1969-01-01T00:00:00Z', 0],
      ['yesterday', 0],
      ['', 0],
      [1_782_900_000, 0],
      [null, 0],
    ]
    for (const [given, expected] of table) t.equal(at(given), expected, String(given))
    t.equal(at({}), 0, 'an object')
  })

  t.test('slices of host names and headless ones are ignored', async t => {
    const names = slice({
      addressType: 'FQDN',
      endpoints: [{ addresses: ['db.example'] }],
    })
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
        ports: [
          { name: '', protocol: 'TCP', port: 80 },
          { name: 'x', protocol: 'SCTP', port: 9 },
        ],
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
})
