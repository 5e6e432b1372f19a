import { isOwnJump } from '../cleanup/kube-chains.ts'
import type { SavedRule } from '../cleanup/saved-rules.ts'
import type { TableName } from './chain.ts'
import { isModeChain, kubeletFirewall, named } from './names.ts'

/** A rule in a chain of the kernel's that leads into one of kube-proxy's. */
export interface Jump {
  readonly table: TableName
  readonly chain: string
  /** What follows `-A CHAIN `, as iptables-save prints it. */
  readonly line: string
}

const begins = '-m conntrack --ctstate NEW '

const jump = (
  table: TableName,
  chain: string,
  target: string,
  [match, comment]: readonly [match: string, comment: string],
): Jump => ({
  table,
  chain,
  line: `${match}-m comment --comment "${comment}" -j ${target}`,
})

const external = [begins, 'kubernetes externally-visible service portals'] as const
const services = [begins, 'kubernetes service portals'] as const
const firewall = [begins, 'kubernetes load balancer firewall'] as const

/** In kube-proxy's order; each is put in front of those before. */
const jumps: readonly Jump[] = [
  jump('filter', 'INPUT', named.externalServices, external),
  jump('filter', 'FORWARD', named.externalServices, external),
  // Not with kube-proxy (but so does its nftables mode): without it, what a process of the
  // node sends to an external or load-balancer IP without endpoints leaves the node, and
  // waits for its timeout instead of being refused.
  jump('filter', 'OUTPUT', named.externalServices, external),
  jump('filter', 'INPUT', named.nodePorts, ['', 'kubernetes health check service ports']),
  jump('filter', 'FORWARD', named.services, services),
  jump('filter', 'OUTPUT', named.services, services),
  jump('filter', 'FORWARD', named.forward, ['', 'kubernetes forwarding rules']),
  jump('filter', 'INPUT', named.proxyFirewall, firewall),
  jump('filter', 'OUTPUT', named.proxyFirewall, firewall),
  jump('filter', 'FORWARD', named.proxyFirewall, firewall),
  jump('nat', 'OUTPUT', named.services, ['', 'kubernetes service portals']),
  jump('nat', 'PREROUTING', named.services, ['', 'kubernetes service portals']),
  jump('nat', 'POSTROUTING', named.postrouting, ['', 'kubernetes postrouting rules']),
]

/** The kubelet's own, for its KUBE-FIREWALL. */
const kubeletJumps: readonly Jump[] = ['INPUT', 'OUTPUT'].map(chain => ({
  table: 'filter',
  chain,
  line: `-j ${kubeletFirewall}`,
}))

/** `localnet`: with the rule against packets from elsewhere to 127.0.0.0/8. */
export const wantedJumps = (localnet: boolean): readonly Jump[] =>
  localnet ? [...jumps, ...kubeletJumps] : jumps

/**
 * The lines that make the jumps of a table right, given the rules of its built-in chains.
 * Nothing when they are. Those of older versions go, and so do duplicates; others' rules
 * between them stay where they are.
 */
export const jumpRepairs = (
  wanted: readonly Jump[],
  table: TableName,
  saved: readonly SavedRule[],
): readonly string[] => {
  const mine = wanted.filter(each => each.table === table)
  const texts = new Set(mine.map(textOf))
  const count = (text: string): number => saved.filter(rule => rule.text === text).length
  const isWrong = (rule: SavedRule): boolean =>
    texts.has(rule.text)
      ? count(rule.text) > 1
      : isModeChain(table, rule.target) && isOwnJump(rule)
  return [
    ...saved.filter(isWrong).map(({ text }) => `-D ${text}`),
    // Of several the first would be right, but the first is the one that -D takes.
    ...mine.filter(each => count(textOf(each)) !== 1).map(each => `-I ${textOf(each)}`),
  ]
}

export const textOf = ({ chain, line }: Jump): string => `${chain} ${line}`
