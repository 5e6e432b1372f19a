import { createHash } from 'node:crypto'
import type { Protocol } from '../../model/service.ts'
import type { Chain } from '../../kernel/xtables/wanted.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { VipRule } from '../vip-rule.ts'
import { own, rangesName } from '../../kernel/xtables/capture-names.ts'
import { hostBlock, packetKey } from './packet-key.ts'

/** The groups of rules that are spread over several chains, and the chain each begins in. */
export const groups = {
  portals: { table: 'nat', root: own.portals, letter: 'P', keys: 'address' },
  nodePorts: { table: 'nat', root: own.nodePorts, letter: 'N', keys: 'port' },
  ofNode: { table: 'nat', root: own.ofNode, letter: 'L', keys: 'address' },
  nodePortsOfNode: { table: 'nat', root: own.nodePortsOfNode, letter: 'M', keys: 'port' },
  policies: { table: 'filter', root: own.begin, letter: 'F', keys: 'port' },
  refused: { table: 'filter', root: own.refused, letter: 'R', keys: 'address' },
  refusedNodePorts: {
    table: 'filter',
    root: own.refusedNodePorts,
    letter: 'Q',
    keys: 'port',
  },
} as const
export type GroupName = keyof typeof groups
export const groupNames = Object.keys(groups) as readonly GroupName[]

/** One rule of iptables' for a VIP. Equal ones of several VIPs are one rule. */
export interface Entry {
  readonly group: GroupName
  readonly key: string
  readonly line: string
  /** A chain in `filter` that rules share and that is there while one of them needs it. */
  readonly uses?: Chain
}

/**
 * What one VIP needs. Who is served is led to its proxy port. Others keep the address, which the
 * filter refuses or drops after the host's own NAT: that may have a use for a node's address and
 * port (k3s#7561), and nothing that the proxy address itself refuses leaves the host. Only of a
 * ClusterIP what is dropped is led to the proxy port, and dropped there: its address is refused.
 */
export const entriesOf = (rule: VipRule): readonly Entry[] => {
  const { kind, address, protocol, port, outside, fromNode } = rule
  const refused = outside === 'reject' && fromNode === 'reject'
  const isClusterIp = kind === 'ClusterIP' && address !== undefined
  const isLed = outside === 'forward' || fromNode === 'forward' || isClusterIp
  const entries: Entry[] = refused || !isLed ? [] : [led(rule), ...policies(rule)]
  // Also for the ports of a ClusterIP that no Service has.
  if (isClusterIp) entries.push(refusedAddress(rule, address))
  else if (outside !== 'forward') {
    const group = address === undefined ? 'refusedNodePorts' : 'refused'
    const dropped: Refusal = { target: 'DROP' }
    const { target, uses } = refused ? refusal(rule.allowedClients) : dropped
    const line = `${destination(rule)}${portMatch(protocol, port, rule.name)} -j ${target}`
    entries.push({ group, key: packetKey(address, protocol, port), line, ...uses })
  }
  return entries
}

/** All clients, or those of the node alone. */
const led = (rule: VipRule): Entry => {
  const { address, protocol, port, name, to, outside, fromNode } = rule
  const target = `DNAT --to-destination ${joinHostPort(to.address, to.port)}`
  const [vips, nodePorts] =
    outside !== 'forward' && fromNode === 'forward'
      ? (['ofNode', 'nodePortsOfNode'] as const)
      : (['portals', 'nodePorts'] as const)
  return {
    group: address === undefined ? nodePorts : vips,
    key: packetKey(address, protocol, port),
    line: `${destination(rule)}${portMatch(protocol, port, name)} -j ${target}`,
  }
}

/** At the proxy port; the VIPs that share one have one policy. */
const policies = (rule: VipRule): readonly Entry[] => {
  const { protocol, to, name, allowedClients, outside, fromNode } = rule
  const entry = (target: string): Entry => ({
    group: 'policies',
    key: packetKey(undefined, protocol, to.port),
    line: `${portMatch(protocol, to.port, name)} -j ${target}`,
  })
  const entries: Entry[] = []
  if (allowedClients !== undefined) {
    const uses = rangesChain('S', allowedClients, 'RETURN')
    entries.push({ ...entry(uses.name), uses })
  }
  if (outside !== 'forward' && fromNode !== 'forward') entries.push(entry('DROP'))
  return entries
}

const refusedAddress = ({ family }: VipRule, address: string): Entry => ({
  group: 'refused',
  key: packetKey(address),
  line: `-d ${hostBlock(address, family)} -j ${own.reject}`,
})

interface Refusal {
  readonly target: string
  readonly uses?: { readonly uses: Chain }
}

/** Clients outside of the ranges are not even refused. */
const refusal = (ranges: readonly string[] | undefined): Refusal => {
  if (ranges === undefined) return { target: own.reject }
  const chain = rangesChain('T', ranges, own.reject)
  return { target: chain.name, uses: { uses: chain } }
}

const rangesChain = (
  letter: string,
  ranges: readonly string[],
  inside: string,
): Chain => {
  const sorted = ranges.toSorted()
  const hash = createHash('sha256').update(sorted.join(' ')).digest('hex').slice(0, 12)
  const lines = sorted.map(range => `-s ${range} -j ${inside}`)
  return { name: rangesName(letter, hash), lines: [...lines, '-j DROP'] }
}

const destination = ({ address, family }: VipRule): string =>
  address === undefined ? '' : `-d ${hostBlock(address, family)} `

const portMatch = (protocol: Protocol, port: number, name: string): string => {
  const low = protocol.toLowerCase()
  return `-p ${low} -m comment --comment "${safe(name)}" -m ${low} --dport ${port}`
}

/** One line and no quotes, whatever it was; xt_comment takes 255 bytes. */
const safe = (name: string): string => name.replaceAll(/[^\w./:-]/g, '_').slice(0, 255)
