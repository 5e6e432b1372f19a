import { kubeletFirewall, named, sharedFirewallComment } from '../xtables/kube-chains.ts'
import { type Jump, jumpComment, jumpTo, type TableName } from '../xtables/wanted.ts'

const begins = '-m conntrack --ctstate NEW'
const external = `${begins} ${jumpComment('kubernetes externally-visible service portals')}`
const services = `${begins} ${jumpComment('kubernetes service portals')}`
const firewall = `${begins} ${jumpComment('kubernetes load balancer firewall')}`

/** In kube-proxy's order; each is put in front of those before. */
const jumps: Readonly<Record<TableName, readonly Jump[]>> = {
  filter: [
    jumpTo('INPUT', named.externalServices, external),
    jumpTo('FORWARD', named.externalServices, external),
    // Not with kube-proxy (but so does its nftables mode): without it, what a process of the
    // node sends to an external or load-balancer IP without endpoints leaves the node, and
    // waits for its timeout instead of being refused.
    jumpTo('OUTPUT', named.externalServices, external),
    jumpTo(
      'INPUT',
      named.nodePorts,
      jumpComment('kubernetes health check service ports'),
    ),
    jumpTo('FORWARD', named.services, services),
    jumpTo('OUTPUT', named.services, services),
    jumpTo('FORWARD', named.forward, jumpComment('kubernetes forwarding rules')),
    jumpTo('INPUT', named.proxyFirewall, firewall),
    jumpTo('OUTPUT', named.proxyFirewall, firewall),
    jumpTo('FORWARD', named.proxyFirewall, firewall),
  ],
  nat: [
    jumpTo('OUTPUT', named.services, jumpComment('kubernetes service portals')),
    jumpTo('PREROUTING', named.services, jumpComment('kubernetes service portals')),
    jumpTo('POSTROUTING', named.postrouting, jumpComment('kubernetes postrouting rules')),
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
