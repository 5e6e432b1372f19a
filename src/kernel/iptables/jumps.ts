import {
  kubeletFirewall,
  iptablesChains,
  sharedFirewallComment,
} from '../xtables/kube-chains.ts'
import {
  type Jump,
  jumpComment,
  jumpTo,
  newConnection,
  type TableName,
} from '../xtables/wanted.ts'

const external = `${newConnection} ${jumpComment('kubernetes externally-visible service portals')}`
const services = `${newConnection} ${jumpComment('kubernetes service portals')}`
const firewall = `${newConnection} ${jumpComment('kubernetes load balancer firewall')}`

/** In kube-proxy's order; each is put in front of those before. */
const jumps: Readonly<Record<TableName, readonly Jump[]>> = {
  filter: [
    jumpTo('INPUT', iptablesChains.externalServices, external),
    jumpTo('FORWARD', iptablesChains.externalServices, external),
    // Not with kube-proxy (but so does its nftables mode): without it, what a process of the
    // node sends to an external or load-balancer IP without endpoints leaves the node, and
    // waits for its timeout instead of being refused.
    jumpTo('OUTPUT', iptablesChains.externalServices, external),
    jumpTo(
      'INPUT',
      iptablesChains.nodePorts,
      jumpComment('kubernetes health check service ports'),
    ),
    jumpTo('FORWARD', iptablesChains.services, services),
    jumpTo('OUTPUT', iptablesChains.services, services),
    jumpTo('FORWARD', iptablesChains.forward, jumpComment('kubernetes forwarding rules')),
    jumpTo('INPUT', iptablesChains.proxyFirewall, firewall),
    jumpTo('OUTPUT', iptablesChains.proxyFirewall, firewall),
    jumpTo('FORWARD', iptablesChains.proxyFirewall, firewall),
  ],
  nat: [
    jumpTo('OUTPUT', iptablesChains.services, jumpComment('kubernetes service portals')),
    jumpTo(
      'PREROUTING',
      iptablesChains.services,
      jumpComment('kubernetes service portals'),
    ),
    jumpTo(
      'POSTROUTING',
      iptablesChains.postrouting,
      jumpComment('kubernetes postrouting rules'),
    ),
  ],
}

/**
 * The kubelet's rule of KUBE-FIREWALL, which kube-proxy writes too since 1.27, as
 * iptables-save prints it: route_localnet would let neighbours reach 127.0.0.1
 * (CVE-2020-8558).
 */
export const localnetRule =
  `! -s 127.0.0.0/8 -d 127.0.0.0/8 ${jumpComment(sharedFirewallComment)}` +
  ' -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'

/** The kubelet's own, for its KUBE-FIREWALL. */
export const kubeletJumps: readonly Jump[] = [
  jumpTo('INPUT', kubeletFirewall, ''),
  jumpTo('OUTPUT', kubeletFirewall, ''),
]

/** The rule that they lead to, in the form of a jump. */
export const localnetJump: Jump = {
  chain: kubeletFirewall,
  target: 'DROP',
  line: localnetRule,
  at: 'end',
}

/** Of all that Usher writes into chains of others, what a table may have. */
export const mayBeThere: typeof jumps = {
  nat: jumps.nat,
  filter: [...jumps.filter, ...kubeletJumps, localnetJump],
}

/** `localnet`: with the rule against packets from elsewhere to 127.0.0.0/8. */
export const wantedJumps = (localnet: boolean): typeof jumps =>
  localnet ? { ...jumps, filter: [...jumps.filter, ...kubeletJumps] } : jumps
