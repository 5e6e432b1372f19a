import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import { nodePortCidrs } from '../../src/kernel/node-port-cidrs.ts'
import {
  clusterFacts,
  hostHas,
  nodePortProblems,
  onLoopback,
} from '../../src/proxy/cluster-facts.ts'
import { noNode } from '../../src/proxy/options.ts'
import { gone, node, portSpec, put, service, slice } from '../support/objects.ts'

t.test(
  'node ports on the primary addresses wait for the Node, and stay there',
  async t => {
    const registry = new Registry({ nodeName: 'n1' })
    const fromApi = {
      ...noNode,
      nodeName: 'n1',
      nodeProblem: () => 'it is not there',
      nodeCidrs: true,
    }
    const options = { nodePortAddresses: ['primary'] }
    const facts = clusterFacts(fromApi, registry, options, {})
    t.same(
      facts.nodePortCidrs('IPv4'),
      ['127.0.0.0/8'],
      'not on all, as nothing is known',
    )
    registry.apply([put(node('n1', { addresses: [] }))])
    t.same(facts.nodePortCidrs('IPv4'), ['127.0.0.0/8'], 'as without')
    registry.apply([
      put(node('n1', { addresses: ['192.0.2.1'], podCIDRs: ['10.1.0.0/24'] })),
    ])
    t.same(facts.nodePortCidrs('IPv4'), ['192.0.2.1/32'])
    t.equal(facts.nodePortCidrs('IPv6'), undefined, 'a family that the Node has not')
    for (const change of [put(node('n1')), gone('Node', 'n1')]) {
      registry.apply([change])
      t.same(facts.nodePortCidrs('IPv4'), ['192.0.2.1/32'])
      t.same(facts.podCidrs(), ['10.1.0.0/24'])
    }
    const ofFiles = clusterFacts(noNode, new Registry(), options, {})
    t.equal(ofFiles.nodePortCidrs('IPv4'), undefined, 'no Node will come')
  },
)

t.test(
  'the pods of this node are those of its podCIDRs, where they are in use',
  async t => {
    const found = (podCIDRs: readonly string[], ...clusterCidrs: string[]) => {
      const registry = new Registry({ nodeName: 'n1' })
      registry.apply([put(node('n1', { podCIDRs }))])
      const facts = clusterFacts({ ...noNode, clusterCidrs }, registry, {}, {})
      t.same(facts.podCidrs(), clusterCidrs, 'as kube-proxy')
      return facts.nodePodCidrs()
    }
    // Of this host's addresses one is surely known.
    const inUse = '127.0.0.0/24'
    t.same(found([inUse], '127.0.0.0/8', 'fd00::/8'), [inUse, 'fd00::/8'])
    t.same(
      found(['127.0.1.0/24'], '127.0.0.0/8'),
      ['127.0.0.0/8'],
      'it has no address there',
    )
    t.same(found([inUse], '10.0.0.0/8'), ['10.0.0.0/8'], 'of another cluster')
    t.same(found(['127.0.0.0/8'], '127.0.0.0/16'), ['127.0.0.0/16'])
    t.same(found([], '127.0.0.0/8'), ['127.0.0.0/8'])
  },
)

t.test('addresses of node ports that match nothing are a problem', async t => {
  const kernel = (localhostNodePorts: boolean) =>
    ({ localhostNodePorts, nftables: { localhostNodePorts } }) as Parameters<
      typeof onLoopback
    >[1]
  const registry = new Registry()
  registry.apply([put(service('web', { ports: [portSpec({ nodePort: 30080 })] }))])
  const wanted = [registry.snapshot('IPv4')]
  const table: [
    words: string[],
    mode: Parameters<typeof onLoopback>[0],
    flag: boolean,
    IPv4: boolean,
    IPv6: boolean,
  ][] = [
    [['localhost'], 'userspace', false, false, false],
    [['localhost'], 'nftables', false, true, true],
    [['localhost'], 'nftables', true, false, false],
    [['localhost'], 'iptables', false, true, true],
    [['localhost'], 'iptables', true, false, false],
    [['localhost'], 'ipvs', true, true, true],
    [['203.0.113.0/24'], 'userspace', false, true, false],
    [['203.0.113.0/24', '::1/128'], 'userspace', false, true, false],
    [['127.0.0.0/8', '2001:db8::/32'], 'userspace', false, false, false],
    [['all'], 'nftables', false, false, false],
    [[], 'ipvs', false, false, false],
  ]
  for (const [words, mode, flag, ...families] of table) {
    const found = nodePortProblems(
      nodePortCidrs(words, []),
      onLoopback(mode, kernel(flag)),
      wanted,
    )
    t.same(
      found.map(({ field }) => field),
      ['IPv4', 'IPv6'].filter((_, i) => families[i]),
      `${words.join()} in ${mode} mode, ${flag}`,
    )
  }
})

t.test('addresses of this host are those of its interfaces', async t => {
  const source = new (class {
    readonly #dials = [{ address: '192.0.2.7', port: 6443 }]
    dials() {
      return this.#dials
    }
  })()
  t.equal(hostHas('127.0.0.1', source), true)
  t.equal(hostHas('192.0.2.7', source), false)
})

t.test('a service range that holds a host is not one that is taken whole', async t => {
  const registry = new Registry({ nodeName: 'n1' })
  const dials = [{ address: '10.96.0.1', port: 443 }]
  const options = { serviceCidr: ['10.96.0.0/16'] }
  const ofFiles = { ...noNode, nodeName: 'n1' }
  const facts = clusterFacts(ofFiles, registry, options, { dials: () => dials })
  t.same(facts.serviceCidrs(), [])
  registry.apply([put(service('kubernetes', { clusterIPs: ['10.96.0.1'] }))])
  t.same(facts.serviceCidrs(), options.serviceCidr, 'the API server by its ClusterIP')
  t.same(facts.serviceCidrProblems(), [])
  const changes = [
    [
      put(node('n1', { addresses: ['10.96.3.1'] })),
      put(node('n1', { addresses: ['192.0.2.1'] })),
    ],
    [put(node('n2', { addresses: ['10.96.3.2'] })), gone('Node', 'n2')],
    [
      put(slice(['10.96.3.3'], { serviceName: 'kubernetes' })),
      gone('EndpointSlice', 'web-1'),
    ],
  ] as const
  for (const [come, go] of changes) {
    registry.apply([come])
    t.same(facts.serviceCidrs(), [])
    t.match(facts.serviceCidrProblems(), [{ field: '10.96.0.0/16' }])
    registry.apply([go])
    t.same(facts.serviceCidrs(), options.serviceCidr)
  }
})
