import { createHash } from 'node:crypto'
import type { Protocol } from '../../model/service.ts'
import type { Chain } from '../../kernel/xtables/wanted.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { Verdict, VipRule } from '../vip-rule.ts'
import { own, rangesName } from '../../kernel/xtables/capture-names.ts'
import { hostBlock, packetKey } from './packet-key.ts'

/** The groups of rules that are spread over several chains, and the chain each begins in. */
export const groups = {
  portals: { table: 'nat', root: own.portals, letter: 'P', keys: 'address' },
  nodePorts: { table: 'nat', root: own.nodePorts, letter: 'N', keys: 'port' },
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
 * What one VIP needs. Packets to a VIP are led to its proxy port, and what may not come in
 * there is dropped behind it, however it is routed: only there does the filter see all of
 * them. What is refused keeps its address, because nothing that the proxy address itself
 * refuses leaves the host. A mixture of `reject` and others can't be told apart there, and
 * so drops; Kubernetes has none.
 */
export const entriesOf = (rule: VipRule): readonly Entry[] => {
  const { kind, address, protocol, port, outside, fromNode } = rule
  const refused = outside === 'reject' && fromNode === 'reject'
  const entries: Entry[] = refused ? [] : [led(rule), ...policies(rule)]
  // Also for the ports of a ClusterIP that no Service has.
  if (kind === 'ClusterIP' && address !== undefined)
    entries.push(refusedAddress(rule, address))
  else if (refused) {
    const group = address === undefined ? 'refusedNodePorts' : 'refused'
    const { target, uses } = refusal(rule.allowedClients)
    const line = `${destination(rule)}${portMatch(protocol, port, rule.name)} -j ${target}`
    entries.push({ group, key: packetKey(address, protocol, port), line, ...uses })
  }
  return entries
}

const led = (rule: VipRule): Entry => {
  const { address, protocol, port, name, to } = rule
  const target = `DNAT --to-destination ${joinHostPort(to.address, to.port)}`
  return {
    group: address === undefined ? 'nodePorts' : 'portals',
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
  const target = verdictTarget(outside, fromNode)
  if (target !== undefined) entries.push(entry(target))
  return entries
}

const verdictTarget = (outside: Verdict, fromNode: Verdict): string | undefined => {
  const [out, node] = [outside === 'forward', fromNode === 'forward']
  if (out && node) return undefined
  return out ? own.notNode : node ? own.nodeOnly : 'DROP'
}

const refusedAddress = ({ family }: VipRule, address: string): Entry => ({
  group: 'refused',
  key: packetKey(address),
  line: `-d ${hostBlock(address, family)} -j ${own.reject}`,
})

/** Clients outside of the ranges are not even refused. */
const refusal = (
  ranges: readonly string[] | undefined,
): { target: string; uses?: { uses: Chain } } => {
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
