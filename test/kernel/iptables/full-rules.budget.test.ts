import t from 'tap'
import type { Change } from '../../../src/model/service.ts'
import { portSpec, put, service, slice } from '../../support/objects.ts'
import { remote, rulesOf, type Situation } from './golden-world.ts'

/** The figures are those of kube-proxy's TestNumberIptablesRules. */

const address = (a: number, n: number): string => `10.${a}.${n >> 8}.${n & 255}`

const services = (
  count: number,
  endpoints: number,
  kind: 'ClusterIP' | 'LoadBalancer',
): readonly Change[] =>
  Array.from({ length: count }, (_, i) => {
    const name = `svc${i}`
    const outside = {
      externalIPs: [address(201, i)],
      loadBalancerIPs: [address(202, i)],
      sourceRanges: ['198.51.100.0/24'],
      ports: [portSpec({ nodePort: 30_000 + i })],
    }
    const backends = Array.from({ length: endpoints }, (_one, n) =>
      remote(address(180, i * endpoints + n + 1)),
    )
    return [
      put(
        service(name, {
          clusterIPs: [address(200, i)],
          ...(kind === 'LoadBalancer' && outside),
        }),
      ),
      put(slice(backends, { name, serviceName: name })),
    ]
  }).flat()

const countOf = (situation: Situation): { filter: number; nat: number } => {
  const { filter, nat } = rulesOf(situation)
  const sum = (chains: typeof nat) =>
    chains.reduce((all, { lines }) => all + lines.length, 0)
  return { filter: sum(filter), nat: sum(nat) }
}

t.test('without Services there are 4 rules in filter and 5 in nat', async t => {
  t.same(countOf({}), { filter: 4, nat: 5 })
})

t.test('a ClusterIP Service with n endpoints costs 2+3n rules', async t => {
  const clusterIps = (count: number, endpoints: number) =>
    countOf({ changes: services(count, endpoints, 'ClusterIP') })
  t.same(clusterIps(1, 1), { filter: 4, nat: 10 })
  t.same(clusterIps(10, 10), { filter: 4, nat: 325 })
  t.same(clusterIps(10, 0), { filter: 14, nat: 5 })
})

t.test('a load balancer with all it can have costs 10+3n rules, and 1', async t => {
  const balancers = (count: number, endpoints: number, nfacct = true) =>
    countOf({
      changes: services(count, endpoints, 'LoadBalancer'),
      features: { nfacct },
    })
  t.same(balancers(1, 1), { filter: 5, nat: 18 })
  t.same(balancers(10, 10), { filter: 14, nat: 405 })
  // Of these, one counts what comes to the node port by localhost.
  t.same(balancers(10, 10, false), { filter: 14, nat: 395 })
  t.same(balancers(10, 0), { filter: 44, nat: 5 }, 'four refusals without endpoints')
})

t.test('above 1000 endpoints the rules of endpoints say no names any more', async t => {
  const lines = (endpoints: number) => {
    const changes = services(1, endpoints, 'LoadBalancer')
    const { nat } = rulesOf({ changes })
    const of = (kind: RegExp) =>
      nat.filter(({ name }) => kind.test(name)).flatMap(chain => chain.lines)
    const commented = (all: readonly string[]) =>
      all.filter(line => line.includes('--comment')).length
    return {
      endpoints: commented(of(/^KUBE-SEP-/)),
      // Without the masquerading of its ClusterIP, which is no endpoint's.
      balancing: commented(of(/^KUBE-SVC-/)) - 1,
      shared: commented(of(/^KUBE-(?:SERVICES|NODEPORTS|EXT-.*|FW-.*)$/)),
    }
  }
  const few = lines(1000)
  t.same([few.endpoints, few.balancing], [2000, 1000])
  const many = lines(1001)
  t.same([many.endpoints, many.balancing], [0, 0])
  t.equal(many.shared, few.shared)
})
