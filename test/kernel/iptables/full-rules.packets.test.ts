import t from 'tap'
import { ipFamilies } from '../../../src/util/ip.ts'
import { restore } from '../../support/iptables-tracer/rule-set.ts'
import { told, trace } from '../../support/iptables-tracer/trace.ts'
import {
  addresses,
  changesOf,
  nodePortOf,
  numberOf,
  serviceKinds,
} from './service-kinds.ts'
import { checkPackets, clientsOf, destinationOf } from './packet-table.ts'
import { textOf } from './golden-world.ts'

for (const family of ipFamilies) {
  const plan = addresses[family]
  const changes = serviceKinds.flatMap((kind, i) => changesOf(kind, i + 1, family))
  const rules = restore(textOf({ changes, family }))
  const clients = [...clientsOf(family)]
  const [pod, , outside] = clients.map(([, client]) => client)
  if (pod === undefined || outside === undefined) throw new Error('clients')

  for (const [i, kind] of serviceKinds.entries())
    t.test(`${family}, ${kind.title}: packets go where they should`, async t => {
      checkPackets(t, rules, kind, i + 1, family)
    })

  t.test(`${family}: a port that no Service has is left alone`, async t => {
    for (const [name, client] of clients) {
      for (const destination of [
        plan.clusterIp(1),
        plan.externalIp(1),
        plan.balancerIp(1),
        plan.balancerIp(numberOf('source ranges')),
        plan.clusterIp(numberOf('no endpoints')),
        plan.node,
      ])
        for (const protocol of ['tcp', 'udp'] as const) {
          const packet = { ...client, destination, port: 81, protocol }
          t.equal(told(trace(rules, packet)), 'untouched', `${name} to ${destination}`)
        }
      const otherProtocol = { ...client, ...destinationOf('cluster IP', 1, family) }
      t.equal(told(trace(rules, { ...otherProtocol, protocol: 'udp' })), 'untouched')
      const nodePort = { destination: plan.clusterIp(1), port: nodePortOf(1) }
      const elsewhere = { ...client, ...nodePort, protocol: 'tcp' } as const
      t.equal(told(trace(rules, elsewhere)), 'untouched', 'a node port is of the node')
    }
  })

  t.test(`${family}: a pod that gets itself is masqueraded, whatever else`, async t => {
    for (const title of ['both policies Cluster', 'externalTrafficPolicy Local']) {
      const n = numberOf(title)
      const self = { ...pod, source: plan.local(n), protocol: 'tcp' } as const
      const outcomes = trace(rules, {
        ...self,
        ...destinationOf('cluster IP', n, family),
      })
      const masqueraded = outcomes.filter(one => one.masqueraded)
      t.equal(outcomes.length, 2)
      t.match(told(masqueraded), plan.local(n))
      t.equal(masqueraded.length, 1)
    }
  })

  t.test(`${family}: a load balancer's IP may use itself if the node may`, async t => {
    const cases = [
      ['source ranges with the node in one', 2],
      ['source ranges', 0],
    ] as const
    for (const [title, count] of cases) {
      const n = numberOf(title)
      const source = plan.balancerIp(n)
      const to = destinationOf('load balancer', n, family)
      const client = { ...outside, source, nodeAddresses: [plan.node, source] }
      const outcomes = trace(rules, {
        ...client,
        inInterface: '',
        ...to,
        protocol: 'tcp',
      })
      t.equal(outcomes.filter(({ verdict }) => verdict === 'ACCEPT').length, count)
    }
  })
}
