import type { IpFamily } from '../../util/ip.ts'
import type { TableSettings } from '../rule-table.ts'
import { disjoint } from '../../kernel/nft/clients.ts'
import { familyKeywords } from '../../kernel/nft/tables.ts'

export interface ChainSettings extends Omit<TableSettings, 'healthCheckPorts'> {
  /** Of what leads packets to the relay; by default dstnat. */
  readonly natPriority?: number | undefined
  /** New connections wait until `release`. */
  readonly isHeld?: boolean
  /** Whether a rule can ask for a packet's socket; see `knowsSockets`. */
  readonly seesSockets: boolean
}

/** Fills the chain `hold` of the table `own` (`ip usher`), or empties it. */
export const holdText = (own: string, isHeld: boolean): string => {
  const chain = `${own} hold`
  const drop = isHeld ? `add rule ${chain} drop\n` : ''
  return `add chain ${chain}\nflush chain ${chain}\n${drop}`
}

/**
 * What is left of Usher's table for the moment before it goes: nothing is led to the proxy
 * address any more, and no refusal leaves it.
 */
export const silenceText = (
  family: IpFamily,
  own: string,
  proxyAddress: string,
): string => `add table ${own}
delete table ${own}
table ${own} {
${proxyAddressChains(family, { proxyAddress, seesSockets: false, isHeld: true })}
}
`

/**
 * Usher's table without the elements of its sets: all that the rules' number does not
 * change. A packet of a connection that stands passes one comparison in each chain; a new
 * one is looked up in hash tables. Node ports' sets are asked last, because they need a
 * look at the routes (`fib`).
 *
 * Priorities: -110 is before dstnat (-100), so that source ranges see the VIP itself; -90 is
 * after it, and refuses and drops what was not steered: neither here nor by rules of the host's
 * own, which may have a use for a node's address and port (k3s#7561).
 */
export const tableText = (
  family: IpFamily,
  own: string,
  settings: ChainSettings,
): string => `add table ${own}
delete table ${own}
table ${own} {
	comment "Usher leads Services' addresses to its proxy ports; it undoes changes made here"
${setsText(family, settings)}
${judgingChains(family, settings)}
${natChains(family, settings)}
${proxyAddressChains(family, settings)}
}
`

const setsText = (family: IpFamily, settings: ChainSettings): string => {
  const { addressType: address } = familyKeywords(family)
  const vip = `${address} . inet_proto . inet_service`
  const nodePort = 'inet_proto . inet_service'
  const proxyPort = `${address} . inet_service`
  return `	map vips {
		comment "address, protocol and port of Services : proxy port"
		type ${vip} : ${proxyPort}
	}
	map vips-of-node {
		comment "for processes and pods of this node only"
		type ${vip} : ${proxyPort}
	}
	map vips-outside {
		comment "refused or dropped when the client is elsewhere"
		type ${vip} : verdict
	}
	map vips-from-node {
		comment "refused or dropped for processes and pods of this node"
		type ${vip} : verdict
	}
	map node-ports { type ${nodePort} : ${proxyPort}; }
	map node-ports-of-node { type ${nodePort} : ${proxyPort}; }
	map node-ports-outside { type ${nodePort} : verdict; }
	map node-ports-from-node { type ${nodePort} : verdict; }
	map guarded {
		comment "loadBalancerSourceRanges"
		type ${vip} : verdict
	}
	set cluster-ips {
		comment "other ports of these are refused"
		type ${address}
	}
	set stamp {
		comment "by which Usher knows its own changes"
		type mark
	}
${intervals('pods', address, settings.podCidrs)}${
    settings.nodePortCidrs === undefined
      ? ''
      : intervals('node-port-addresses', address, settings.nodePortCidrs)
  }`
}

/** An empty list of elements would be a syntax error. */
const intervals = (name: string, type: string, cidrs: readonly string[]): string => {
  const blocks = disjoint(cidrs)
  const elements = blocks.length === 0 ? '' : ` elements = { ${blocks.join(', ')} };`
  return `	set ${name} { type ${type}; flags interval;${elements} }\n`
}

/** What is refused or dropped: clients outside of source ranges, and what is left after NAT. */
const judgingChains = (family: IpFamily, settings: ChainSettings): string => {
  const { family: ip } = familyKeywords(family)
  const vip = `${ip} daddr . meta l4proto . th dport`
  const nodePort = `${toNodePortAddress(family, settings)} meta l4proto . th dport`
  return `	chain refuse {
		meta l4proto 6 reject with tcp reset
		reject
	}
	chain not-steered {
		meta l4proto { 6, 17 } ${ip} daddr @cluster-ips goto refuse
	}
	chain from-node {
		${ip} daddr ${settings.proxyAddress} return comment "steered"
		${vip} vmap @vips-from-node
		${nodePort} vmap @node-ports-from-node
		goto not-steered
	}
	chain from-elsewhere {
		${ip} daddr ${settings.proxyAddress} return comment "steered"
		${ip} saddr @pods goto from-node
		${vip} vmap @vips-outside
		${nodePort} vmap @node-ports-outside
		goto not-steered
	}
	chain before-nat-prerouting {
		type filter hook prerouting priority -110; policy accept;
		ct state new ${vip} vmap @guarded
	}
	chain before-nat-output {
		type filter hook output priority -110; policy accept;
		ct state new ${vip} vmap @guarded
	}
	chain after-nat-prerouting {
		type filter hook prerouting priority -90; policy accept;
		ct state new jump from-elsewhere
	}
	chain after-nat-output {
		type filter hook output priority -90; policy accept;
		ct state new jump from-node
	}`
}

const toNodePortAddress = (family: IpFamily, settings: ChainSettings): string => {
  const local = 'fib daddr type local'
  if (settings.nodePortCidrs === undefined) return local
  return `${familyKeywords(family).family} daddr @node-port-addresses ${local}`
}

const natChains = (family: IpFamily, settings: ChainSettings): string => {
  const { family: ip } = familyKeywords(family)
  const { natPriority = -100 } = settings
  const rules = (from: string): string =>
    `dnat ${ip} to ${ip} daddr . meta l4proto . th dport map @vips
		${from}dnat ${ip} to ${ip} daddr . meta l4proto . th dport map @vips-of-node
		${toNodePortAddress(family, settings)} dnat ${ip} to meta l4proto . th dport map @node-ports
		${from}${toNodePortAddress(family, settings)} dnat ${ip} to meta l4proto . th dport map @node-ports-of-node`
  return `	chain nat-prerouting {
		type nat hook prerouting priority ${natPriority}; policy accept;
		${fromOutside(family)}${rules(`${ip} saddr @pods `)}
	}
	chain nat-output {
		type nat hook output priority ${natPriority}; policy accept;
		${rules('')}
	}`
}

/**
 * Node ports of 127.0.0.1 are for the node itself. Led elsewhere by then, packets that a
 * neighbour sends there would not be seen for the martians they are (RFC 1122, 3.2.1.3).
 */
const fromOutside = (family: IpFamily): string =>
  family === 'IPv4' ? 'ip daddr 127.0.0.0/8 return\n\t\t' : ''

/** Usher's are bound to the proxy address itself; after a crash others may have its ports. */
const notOurs =
  'ct state new socket wildcard 1 drop comment "a program has that port on all addresses"'

/**
 * The proxy address can't be reached but through a VIP, and is silent about connections
 * that were never accepted: with no relay there for a moment (a restart, a crash) the
 * client's kernel sends its SYN again a second later, and the next relay takes it. A reset
 * that refuses a SYN bears an ACK; one that answers what is left of an old connection does
 * not (RFC 9293, 3.10.7.1), and is let out.
 * What leaves it untranslated belongs to a flow that conntrack has forgotten; without it
 * the client's next packet makes that flow whole again.
 */
const proxyAddressChains = (
  family: IpFamily,
  settings: Pick<ChainSettings, 'proxyAddress' | 'seesSockets' | 'isHeld'>,
): string => {
  const { family: ip, icmp } = familyKeywords(family)
  const { proxyAddress, seesSockets, isHeld = false } = settings
  return `	chain hold {
		comment "drops while another Usher is about to take over"
${isHeld ? '\t\tdrop\n' : ''}	}
	chain to-proxy {
		ct status & dnat != 0 ct state new jump hold
${seesSockets ? `		${notOurs}\n` : ''}		ct status & dnat != 0 accept
		drop comment "not sent to a Service"
	}
	chain input {
		type filter hook input priority 0; policy accept;
		${ip} daddr ${proxyAddress} goto to-proxy
	}
	chain from-proxy {
		ct state { invalid, untracked } drop comment "conntrack does not know it"
		ct status & dnat == 0 drop comment "conntrack has forgotten its flow"
		tcp flags & (rst | ack) == rst | ack ct status & assured == 0 drop comment "nobody listens, yet"
		${icmp} type destination-unreachable drop comment "nobody listens, yet"
	}
	chain output {
		type filter hook output priority 0; policy accept;
		${ip} saddr ${proxyAddress} goto from-proxy
	}`
}
