import type { IpFamily } from '../../../src/util/ip.ts'
import { makeNetns, type Netns } from '../../support/netns.ts'
import { type Agent, startAgent } from './agent.ts'
import { proxyAddresses } from '../steered-table.ts'

/** A node with a pod and a host outside, by IPv4 and IPv6. */
export interface Network {
  readonly node: Netns
  readonly agents: Readonly<Record<'node' | 'pod' | 'outside', Agent>>
  readonly addresses: Readonly<Record<IpFamily, Addresses>>
}

interface Addresses {
  /** The node's, as the host outside and the pod see it. */
  readonly node: string
  readonly outside: string
}

const commands = (node: string, pod: string, outside: string): readonly string[] => [
  `ip link add toPod type veth peer name eth0 netns ${pod}`,
  `ip link add toOutside type veth peer name eth0 netns ${outside}`,
  'ip link set toPod up',
  'ip link set toOutside up',
  'ip addr add 10.244.0.1/24 dev toPod',
  'ip addr add 192.0.2.1/24 dev toOutside',
  'ip -6 addr add fd00:10:244::1/64 dev toPod nodad',
  'ip -6 addr add 2001:db8::1/64 dev toOutside nodad',
  'ip route add default via 192.0.2.2',
  'ip -6 route add default via 2001:db8::2',
  `ip route add local ${proxyAddresses.IPv4} dev lo proto 117`,
  `ip -6 addr add ${proxyAddresses.IPv6}/128 dev lo`,
  'echo 1 > /proc/sys/net/ipv4/ip_forward',
  'echo 1 > /proc/sys/net/ipv6/conf/all/forwarding',
  // By default six refusals in a row for one client, then one a second.
  'echo 0 > /proc/sys/net/ipv4/icmp_ratelimit',
  'echo 0 > /proc/sys/net/ipv6/icmp/ratelimit',
  ...hostCommands(
    pod,
    ['10.244.0.2/24', '10.244.0.1'],
    ['fd00:10:244::2/64', 'fd00:10:244::1'],
  ),
  ...hostCommands(
    outside,
    ['192.0.2.2/24', '192.0.2.1'],
    ['2001:db8::2/64', '2001:db8::1'],
  ),
  // It takes the node's loopback addresses for hosts behind the node.
  `ip netns exec ${outside} sysctl -qw net.ipv4.conf.eth0.route_localnet=1`,
  `ip -4 -n ${outside} addr flush dev lo`,
  `ip -n ${outside} route add 127.0.0.1 via 192.0.2.1`,
]

const hostCommands = (
  name: string,
  ...sides: readonly (readonly [address: string, via: string])[]
): readonly string[] => [
  `ip -n ${name} link set eth0 up`,
  ...sides.flatMap(([address, via]) => {
    const ip = address.includes(':') ? `ip -6 -n ${name}` : `ip -n ${name}`
    const nodad = address.includes(':') ? ' nodad' : ''
    return [
      `${ip} addr add ${address} dev eth0${nodad}`,
      `${ip} route add default via ${via}`,
    ]
  }),
]

/** What a careful host's own filter may be: it lets in nothing but what it asked for. */
const hostFilter = `*filter
:INPUT DROP [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
`
const neighbours = '-A INPUT -p ipv6-icmp -j ACCEPT\n'

export const makeNetwork = async (backend: 'nft' | 'legacy'): Promise<Network> => {
  const [node, pod, outside] = await Promise.all(
    ['node', 'pod', 'out'].map(label => makeNetns(`ipt-${label}`)),
  )
  if (node === undefined || pod === undefined || outside === undefined)
    throw new Error('a namespace is missing')
  for (const line of commands(node.name, pod.name, outside.name))
    await node.run('sh', ['-c', line])
  await node.run(`iptables-${backend}-restore`, ['--noflush'], { input: hostFilter })
  const filter6 = hostFilter.replace('COMMIT', `${neighbours}COMMIT`)
  await node.run(`ip6tables-${backend}-restore`, ['--noflush'], { input: filter6 })
  return {
    node,
    agents: {
      node: startAgent(node),
      pod: startAgent(pod),
      outside: startAgent(outside),
    },
    addresses: {
      IPv4: { node: '192.0.2.1', outside: '192.0.2.2' },
      IPv6: { node: '2001:db8::1', outside: '2001:db8::2' },
    },
  }
}
