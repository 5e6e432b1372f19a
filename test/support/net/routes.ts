import { addressOf, linkAddress, podGateway, secondAddress } from './addresses.ts'
import type { HostName } from './addresses.ts'

/** What `ip -batch` and `sysctl` are told inside of one namespace. */
export interface Setup {
  readonly sysctls: readonly string[]
  readonly links: readonly string[]
}

/** The namespace of a host, as `ip link ... netns` wants it. */
export type NamespaceOf = (host: HostName) => string

/** Of the host end of a pod's veth, so that its link-local address is known: Calico's. */
const gatewayMac = 'ee:ee:ee:ee:ee:ee'
const gatewayLinkLocal = 'fe80::ecee:eeff:feee:eeee'
/** An address that nobody has; the host end answers ARP for it (proxy_arp). */
const nobody = '169.254.1.1'

/** Addresses can be used at once. */
const noDad = 'net.ipv6.conf.default.accept_dad=0'

/**
 * The node forwards, and has every veth's other end put into the namespace it is for: no
 * interface is ever in another. ICMP is not rate limited, because a matrix is refused more
 * often in a second than any client.
 */
export const nodeSetup = (namespaceOf: NamespaceOf): Setup => ({
  sysctls: [
    noDad,
    'net.ipv4.ip_forward=1',
    'net.ipv6.conf.all.forwarding=1',
    'net.ipv4.conf.all.send_redirects=0',
    'net.ipv4.conf.default.send_redirects=0',
    'net.ipv4.icmp_ratemask=0',
    'net.ipv6.icmp.ratelimit=0',
  ],
  links: [
    ...veth('outside', namespaceOf('outside')),
    ...address('outside', `${addressOf.node.IPv4}/24`, `${addressOf.node.IPv6}/64`),
    ...address('outside', `${secondAddress.IPv4}/24`, `${secondAddress.IPv6}/64`),
    ...veth('far', namespaceOf('backend-3')),
    ...address('far', `${linkAddress.IPv4}/24`, `${linkAddress.IPv6}/64`),
    ...veth('pod-1', namespaceOf('pod-1')),
    ...address('pod-1', `${podGateway.IPv4}/32`, `${podGateway.IPv6}/128`),
    ...podsWithoutGateway.flatMap(pod => veth(pod, namespaceOf(pod))),
    ...podsOfNode.flatMap(pod => [
      `route add ${addressOf[pod].IPv4}/32 dev ${pod}`,
      `route add ${addressOf[pod].IPv6}/128 dev ${pod}`,
    ]),
    'route add 10.244.2.0/24 via 172.20.2.2',
    'route add fd10:244:2::/64 via fd20:2::2',
    `route add default via ${addressOf.outside.IPv4} src ${addressOf.node.IPv4}`,
    `route add ::/0 via ${addressOf.outside.IPv6} src ${addressOf.node.IPv6}`,
  ],
})

/** Calico's: the host end of their veth has no IPv4 address. */
const podsWithoutGateway = ['pod-2', 'backend-1', 'backend-2'] as const
const podsOfNode = ['pod-1', ...podsWithoutGateway] as const

/** To be done once the node's links are there. By default the answer comes up to 0.8 s late. */
export const proxyArp: readonly string[] = podsWithoutGateway.flatMap(pod => [
  `net.ipv4.conf.${pod}.proxy_arp=1`,
  `net.ipv4.neigh.${pod}.proxy_delay=0`,
])

const veth = (device: string, peerNamespace: string): string[] => [
  `link add ${device} address ${gatewayMac} type veth peer name eth0 netns ${peerNamespace}`,
  `link set ${device} up`,
]

const address = (device: string, v4: string, v6: string): string[] => [
  `addr add ${v4} dev ${device}`,
  `addr add ${v6} dev ${device} nodad`,
]

const withoutGateway = (pod: HostName): string[] => [
  'link set eth0 up',
  ...address('eth0', `${addressOf[pod].IPv4}/32`, `${addressOf[pod].IPv6}/128`),
  `route add ${nobody} dev eth0`,
  `route add default via ${nobody} dev eth0`,
  `route add ::/0 via ${gatewayLinkLocal} dev eth0`,
]

const others: Readonly<Record<Exclude<HostName, 'node'>, readonly string[]>> = {
  'pod-1': [
    'link set eth0 up',
    ...address('eth0', `${addressOf['pod-1'].IPv4}/32`, `${addressOf['pod-1'].IPv6}/128`),
    `route add ${podGateway.IPv4} dev eth0`,
    `route add ${podGateway.IPv6} dev eth0`,
    `route add default via ${podGateway.IPv4} dev eth0`,
    `route add ::/0 via ${podGateway.IPv6} dev eth0`,
  ],
  'pod-2': withoutGateway('pod-2'),
  'backend-1': withoutGateway('backend-1'),
  'backend-2': withoutGateway('backend-2'),
  'backend-3': [
    'link set eth0 up',
    ...address('eth0', '172.20.2.2/24', 'fd20:2::2/64'),
    ...address(
      'lo',
      `${addressOf['backend-3'].IPv4}/32`,
      `${addressOf['backend-3'].IPv6}/128`,
    ),
    `route add default via ${linkAddress.IPv4} src ${addressOf['backend-3'].IPv4}`,
    `route add ::/0 via ${linkAddress.IPv6} src ${addressOf['backend-3'].IPv6}`,
  ],
  outside: [
    'link set eth0 up',
    ...address('eth0', `${addressOf.outside.IPv4}/24`, `${addressOf.outside.IPv6}/64`),
    ...address('eth0', '198.51.100.2/24', '2001:db8:2::2/64'),
    `route add default via ${addressOf.node.IPv4} src ${addressOf.outside.IPv4}`,
    `route add ::/0 via ${addressOf.node.IPv6} src ${addressOf.outside.IPv6}`,
  ],
}

/** Everybody sends to the node what is not on the link. */
export const hostSetup = (host: Exclude<HostName, 'node'>): Setup => ({
  // A new namespace may have this from the one that it was made in.
  sysctls: [noDad, 'net.ipv4.ip_forward=0'],
  links: others[host],
})
