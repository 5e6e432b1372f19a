import t from 'tap'
import type { KernelSettings, LocalDetector } from '../../../src/kernel/proxier.ts'
import { ipFamilies } from '../../../src/util/ip.ts'
import { restore, type RuleSet } from '../../support/iptables-tracer/rule-set.ts'
import { type Packet, told, trace } from '../../support/iptables-tracer/trace.ts'
import {
  addresses,
  changesOf,
  clusterPackets,
  localPackets,
  nodePortOf,
  serviceKinds,
} from './service-kinds.ts'
import { checkPackets, clientsOf, expectedOf } from './packet-table.ts'
import { textOf } from './golden-world.ts'

/** Services 1 and 2 have the policies Cluster and Local; 3 is Local with no endpoint here. */
const rulesWith = (
  settings: Partial<KernelSettings>,
  family: 'IPv4' | 'IPv6' = 'IPv4',
  more: { readonly conntrackLiberal?: boolean } = {},
): RuleSet => {
  const kinds = serviceKinds.slice(0, 8)
  const changes = kinds.flatMap((kind, i) => changesOf(kind, i + 1, family))
  return restore(textOf({ changes, settings, family, features: more }))
}

const onlyOwnPods = {
  cluster: `
             cluster IP  external IP  load balancer  node port
  pod        any         any*         any*           any*
  far pod    any*        any*         any*           any*
  outside    any*        any*         any*           any*
  stranger   any*        any*         any*           any*
  node       any*        any*         any*           any*`,
  local: `
             cluster IP  external IP  load balancer  node port
  pod        any         any          any            any
  far pod    any*        local        local          local
  outside    any*        local        local          local
  stranger   any*        local        local          local
  node       any*        any*         any*           any*`,
}

const nobody = {
  cluster: `
             cluster IP  external IP  load balancer  node port
  pod        any         any*         any*           any*
  far pod    any         any*         any*           any*
  outside    any         any*         any*           any*
  stranger   any         any*         any*           any*
  node       any         any*         any*           any*`,
  local: `
             cluster IP  external IP  load balancer  node port
  pod        any         local        local          local
  far pod    any         local        local          local
  outside    any         local        local          local
  stranger   any         local        local          local
  node       any         any*         any*           any*`,
}

const sources = {
  IPv4: ['10.180.0.0/24', '10.180.1.0/24', '10.180.7.0/25'],
  IPv6: ['fd00:10:180::/64', 'fd00:10:180:1::/64', 'fd00:10:180:7::/65'],
}

for (const family of ipFamilies) {
  const [own = '', far = '', other = ''] = sources[family]
  const everybodyInCidrs = { cluster: clusterPackets, local: localPackets }
  const by = (...cidrs: readonly string[]): LocalDetector => ({ by: 'source', cidrs })
  const detectors: readonly (readonly [LocalDetector, typeof onlyOwnPods, string])[] = [
    [by(own), onlyOwnPods, "one CIDR, this node's"],
    [by(own, far), everybodyInCidrs, 'two CIDRs'],
    [by(far, own), everybodyInCidrs, 'two CIDRs the other way round'],
    [by(other, far, own), everybodyInCidrs, 'three CIDRs'],
    [by(other, own), onlyOwnPods, 'two CIDRs without the other pods'],
    [{ by: 'bridge', name: 'cbr0' }, onlyOwnPods, 'the bridge'],
    [{ by: 'interface prefix', prefix: 'cb' }, onlyOwnPods, "interfaces' names"],
    [{ by: 'none' }, nobody, 'nothing'],
  ]
  for (const [localDetector, { cluster, local }, title] of detectors)
    t.test(`${family}: pods of this node are told by ${title}`, async t => {
      const rules = rulesWith({ localDetector }, family)
      checkPackets(t, rules, { packets: cluster }, 1, family)
      checkPackets(t, rules, { packets: local }, 2, family)
    })

  t.test(`${family}: masqueradeAll masquerades all that goes to a ClusterIP`, async t => {
    const rules = rulesWith({ masqueradeAll: true }, family)
    const starred = (packets: string) =>
      packets.replaceAll(/^( {2}[a-z ]+? {2,})any\b(?!\*)/gm, '$1any*')
    checkPackets(t, rules, { packets: starred(clusterPackets) }, 1, family)
    checkPackets(t, rules, { packets: starred(localPackets) }, 2, family)
  })

  t.test(`${family}: localhost has no node ports where it is not to`, async t => {
    const settings = { localhostNodePorts: family === 'IPv6' }
    const lo = family === 'IPv4' ? '127.0.0.1' : '::1'
    const rules = rulesWith(settings, family)
    const dial = (n: number) => told(trace(rules, onLocalhost(lo, nodePortOf(n))))
    t.same([dial(1), dial(2)], ['untouched', 'untouched'])
    // The rules for ports that lead nowhere are of all the node's addresses (kube-proxy's too).
    t.same([dial(3), dial(8)], ['DROP', 'REJECT'])
    checkPackets(t, rules, { packets: clusterPackets }, 1, family)
  })
}

const onLocalhost = (address: string, port: number): Packet => ({
  source: address,
  destination: address,
  port,
  protocol: 'tcp',
  inInterface: '',
  nodeAddresses: [addresses.IPv4.node, addresses.IPv6.node],
})

t.test('node ports on localhost are masqueraded, whatever the policy', async t => {
  const rules = rulesWith({})
  const told1 = (n: number) => told(trace(rules, onLocalhost('127.0.0.1', nodePortOf(n))))
  t.equal(told1(1), expectedOf('any*', 1, 'IPv4'))
  t.equal(told1(2), expectedOf('any*', 2, 'IPv4'))
  t.equal(told1(3), expectedOf('remote*', 3, 'IPv4'))
  t.equal(told1(8), 'REJECT', 'no endpoints')
  t.equal(told(trace(rules, onLocalhost('127.0.0.9', nodePortOf(1)))), told1(1))
  t.equal(told(trace(rules, onLocalhost('127.0.0.1', 31_000))), 'untouched')
})

t.test(
  'neighbours reach nothing of 127.0.0.0/8 but node ports (CVE-2020-8558)',
  async t => {
    const [, , outside] = [...clientsOf('IPv4').values()]
    if (outside === undefined) throw new Error('no outside')
    const rules = rulesWith({})
    const packet = {
      ...outside,
      destination: '127.0.0.1',
      port: 22,
      protocol: 'tcp',
    } as const
    t.equal(told(trace(rules, packet)), 'DROP')
    t.equal(told(trace(rules, { ...packet, state: 'ESTABLISHED' })), 'untouched')
    t.equal(told(trace(rules, onLocalhost('127.0.0.1', 22))), 'untouched')
  },
)

t.test("node ports are those of the node's addresses in nodePortCidrs", async t => {
  const nodeAddresses = ['192.168.0.2', '192.168.0.3', '10.9.9.2']
  const rules = rulesWith({ nodePortCidrs: ['192.168.0.0/24'], nodeAddresses })
  const [, , outside] = [...clientsOf('IPv4').values()]
  if (outside === undefined) throw new Error('no outside')
  const dial = (destination: string, n = 1): string => {
    const to = { destination, port: nodePortOf(n), protocol: 'tcp' } as const
    return told(trace(rules, { ...outside, ...to, nodeAddresses }))
  }
  t.equal(dial('192.168.0.2'), expectedOf('any*', 1, 'IPv4'))
  t.equal(dial('192.168.0.3', 2), expectedOf('local', 2, 'IPv4'))
  t.equal(dial('10.9.9.2'), 'untouched')
  t.equal(dial('192.168.0.4'), 'untouched', 'in the CIDR, but of another host')
  t.equal(told(trace(rules, onLocalhost('127.0.0.1', nodePortOf(1)))), 'untouched')
  const withLoopback = rulesWith({
    nodePortCidrs: ['127.0.0.0/8', '10.9.9.0/24'],
    nodeAddresses,
  })
  const local = trace(withLoopback, onLocalhost('127.0.0.1', nodePortOf(1)))
  t.equal(told(local), expectedOf('any*', 1, 'IPv4'))
})

/** What a firewall of somebody else's that lets nothing through by itself leaves. */
const behindFirewall = (rules: RuleSet): RuleSet =>
  restore('*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\nCOMMIT\n', rules)

t.test('masqueraded and established traffic is let through by name', async t => {
  const rules = behindFirewall(rulesWith({}))
  const [pod, , outside] = [...clientsOf('IPv4').values()]
  if (pod === undefined || outside === undefined) throw new Error('clients')
  const node = addresses.IPv4.node
  const to = { destination: node, port: nodePortOf(1), protocol: 'tcp' } as const
  t.equal(told(trace(rules, { ...outside, ...to })), expectedOf('any*', 1, 'IPv4'))
  const unknown = { ...outside, ...to, destination: addresses.IPv4.pod, port: 9 }
  t.equal(told(trace(rules, unknown)), 'DROP')
  t.equal(told(trace(rules, { ...unknown, state: 'ESTABLISHED' })), 'untouched')
})

t.test('INVALID packets are dropped, but not by a kernel that is liberal', async t => {
  const [pod] = [...clientsOf('IPv4').values()]
  if (pod === undefined) throw new Error('no pod')
  const to = { destination: addresses.IPv4.outside, port: 9, protocol: 'tcp' } as const
  const invalid = { ...pod, ...to, state: 'INVALID' } as const
  t.equal(told(trace(rulesWith({}), invalid)), 'DROP')
  const liberal = rulesWith({}, 'IPv4', { conntrackLiberal: true })
  t.equal(told(trace(liberal, invalid)), 'untouched')
  t.equal(told(trace(rulesWith({}), { ...invalid, state: 'NEW' })), 'untouched')
})

t.test('the health check node port is let in past a closed firewall', async t => {
  for (const family of ipFamilies) {
    const kind = {
      title: 'health',
      over: { externalTrafficPolicy: 'Local', healthCheckNodePort: 32_001 },
      packets: '',
    } as const
    for (const local of [{}, null]) {
      const changes = changesOf({ ...kind, local }, 1, family)
      const rules = behindFirewall(restore(textOf({ changes, family })))
      const [, , outside] = [...clientsOf(family).values()]
      if (outside === undefined) throw new Error('no outside')
      const to = { destination: addresses[family].node, protocol: 'tcp' } as const
      t.equal(told(trace(rules, { ...outside, ...to, port: 32_001 })), 'untouched')
      t.equal(told(trace(rules, { ...outside, ...to, port: 32_002 })), 'DROP')
    }
  }
})
