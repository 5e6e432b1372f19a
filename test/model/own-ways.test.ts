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
    { object: 'Service default/cut', message: /^203.0.113.7:6443\/TCP is left out/ },
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
