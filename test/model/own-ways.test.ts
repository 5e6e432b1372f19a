import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import type { Change, Service } from '../../src/model/service.ts'
import type { AddressPort } from '../../src/util/ip.ts'
import { gone, node, portSpec, put, service, slice } from '../support/objects.ts'

const api = { address: '203.0.113.7', port: 6443 }
const ports = [portSpec({ name: '', port: 6443 })]
const named = (over: Partial<Service>) => put(service('cut', { ports, ...over }))
const leadingTo = (address: string, port = 6443) =>
  put(
    slice([address], {
      name: 'cut-1',
      serviceName: 'cut',
      ports: [{ name: '', protocol: 'TCP', port }],
    }),
  )
/** As the API servers list themselves. */
const apiServers = (...addresses: string[]) =>
  put(
    slice(addresses, {
      name: 'kubernetes',
      serviceName: 'kubernetes',
      ports: [{ name: 'https', protocol: 'TCP', port: 6443 }],
    }),
  )

const vipsOf = (registry: Registry): string[] =>
  [...registry.snapshot('IPv4').servicePorts.values()].flatMap(({ vips }) =>
    vips.map(({ kind }) => kind),
  )

t.test(
  'no Service has the address and port by which this node reaches the API server',
  async t => {
    const table: [why: string, changes: Change[], vips: string[]][] = [
      ['an external IP', [named({ externalIPs: [api.address] })], ['ClusterIP']],
      ['a load balancer', [named({ loadBalancerIPs: [api.address] })], ['ClusterIP']],
      [
        'with endpoints',
        [named({ externalIPs: [api.address] }), leadingTo('10.1.0.1')],
        ['ClusterIP'],
      ],
      [
        'another port',
        [named({ externalIPs: [api.address], ports: [portSpec({ name: '' })] })],
        ['ClusterIP', 'ExternalIP'],
      ],
      [
        'UDP',
        [
          named({
            externalIPs: [api.address],
            ports: [portSpec({ name: '', port: 6443, protocol: 'UDP' })],
          }),
        ],
        ['ClusterIP', 'ExternalIP'],
      ],
      ['the API server’s Service', [named({ clusterIPs: [api.address] })], ['ClusterIP']],
      [
        'a server that others dial',
        [apiServers('192.0.2.9'), named({ externalIPs: ['192.0.2.9'] })],
        ['ClusterIP'],
      ],
      [
        'what leads there',
        [
          apiServers('192.0.2.9'),
          named({ loadBalancerIPs: [api.address] }),
          leadingTo('192.0.2.9'),
        ],
        ['ClusterIP', 'LoadBalancerIP'],
      ],
      [
        'to another port there',
        [
          apiServers('192.0.2.9'),
          named({ loadBalancerIPs: [api.address] }),
          leadingTo('192.0.2.9', 22),
        ],
        ['ClusterIP'],
      ],
      [
        'but keeps this node out',
        [
          apiServers('192.0.2.9'),
          named({ loadBalancerIPs: [api.address], sourceRanges: [] }),
          leadingTo('192.0.2.9'),
        ],
        ['ClusterIP'],
      ],
    ]
    for (const [why, changes, vips] of table) {
      const dials = [api]
      const registry = new Registry({ dials: () => dials })
      registry.apply(changes)
      t.same(vipsOf(registry), vips, why)
      t.equal(
        registry.problems().length,
        vips.length === 2 || why.endsWith('Service') ? 0 : 1,
        why,
      )
    }
  },
)

t.test('it is so whenever the address is learnt, and ends with it', async t => {
  let dials: readonly AddressPort[] = []
  const registry = new Registry({ dials: () => dials })
  registry.apply([named({ loadBalancerIPs: [api.address] })])
  t.same(vipsOf(registry), ['ClusterIP', 'LoadBalancerIP'])
  dials = [api]
  t.same(vipsOf(registry), ['ClusterIP'])
  t.match(registry.problems(), [
    { object: 'Service default/cut', message: /^203.0.113.7:6443\/TCP is not served/ },
  ])
  registry.apply([apiServers('192.0.2.9'), leadingTo('192.0.2.9')])
  t.same(vipsOf(registry), ['ClusterIP', 'LoadBalancerIP'])
  registry.apply([gone('EndpointSlice', 'cut-1')])
  t.same(vipsOf(registry), ['ClusterIP'], 'without endpoints it would refuse')
})

t.test('a node port, whether the Node came before or after the Service', async t => {
  const nodePort = named({ ports: [portSpec({ name: '', nodePort: api.port })] })
  const own = put(node('n1', { addresses: [api.address] }))
  for (const order of [
    [own, nodePort],
    [nodePort, own],
  ]) {
    const dials = [api]
    const registry = new Registry({ nodeName: 'n1', dials: () => dials })
    for (const change of order) {
      registry.apply([change])
      registry.problems()
    }
    t.same(vipsOf(registry), ['ClusterIP'])
    t.equal(registry.problems().length, 1)
  }
})

t.test('no Service has the port of a server of Usher’s own on this host', async t => {
  const server = { address: '0.0.0.0', port: 10_256, flag: '--healthz-bind-address' }
  const onLoopback = { ...server, address: '127.0.0.1' }
  const atPort = [portSpec({ name: '', port: server.port })]
  const nodePort = [portSpec({ name: '', nodePort: server.port })]
  const table = [
    ['a node port', { ports: nodePort }, server, ['ClusterIP']],
    ['of a server on loopback', { ports: nodePort }, onLoopback, ['ClusterIP']],
    [
      'the Node’s address',
      { ports: atPort, externalIPs: ['192.0.2.1'] },
      server,
      ['ClusterIP'],
    ],
    [
      'the host’s',
      { ports: atPort, loadBalancerIPs: ['192.0.2.2'] },
      server,
      ['ClusterIP'],
    ],
    ['a ClusterIP there', { ports: atPort, clusterIPs: ['192.0.2.2'] }, server, []],
    [
      'not on loopback',
      { ports: atPort, externalIPs: ['192.0.2.1'] },
      onLoopback,
      ['ClusterIP', 'ExternalIP'],
    ],
    [
      'not elsewhere',
      { ports: atPort, externalIPs: ['192.0.2.3'] },
      server,
      ['ClusterIP', 'ExternalIP'],
    ],
    [
      'nor over UDP',
      { ports: [portSpec({ name: '', nodePort: server.port, protocol: 'UDP' })] },
      server,
      ['ClusterIP', 'NodePort'],
    ],
  ] as const
  for (const [why, over, own, vips] of table) {
    let servers: (typeof own)[] = []
    const registry = new Registry({
      nodeName: 'n1',
      host: { servers: () => servers, has: address => address === '192.0.2.2' },
    })
    registry.apply([put(node('n1', { addresses: ['192.0.2.1'] })), named(over)])
    registry.problems()
    servers = [own]
    t.same(vipsOf(registry), vips, why)
    const isCut = vips.length < 2
    t.equal(registry.problems().length, isCut ? 1 : 0, why)
    if (isCut) t.match(registry.problems()[0]?.message, /own server of --healthz/)
  }
})

t.test(
  'a node port, where this host has the API server’s address for a time',
  async t => {
    const dials = [api]
    const none: never[] = []
    const addresses = new Set<string>()
    const registry = new Registry({
      nodeName: 'n1',
      dials: () => dials,
      host: { servers: () => none, has: address => addresses.has(address) },
    })
    const own = put(node('n1', { addresses: ['192.0.2.1'] }))
    registry.apply([own, named({ ports: [portSpec({ name: '', nodePort: api.port })] })])
    t.same(vipsOf(registry), ['ClusterIP', 'NodePort'])
    addresses.add(api.address)
    t.same(vipsOf(registry), ['ClusterIP'])
    addresses.clear()
    t.same(vipsOf(registry), ['ClusterIP', 'NodePort'])
  },
)
