/** The tables Usher has chains in, in the order in which new rules are put into them. */
export const tableNames = ['filter', 'nat'] as const
export type TableName = (typeof tableNames)[number]

/**
 * Chains that packets of the kernel's reach first: named as kube-proxy's userspace mode
 * named them, so that `kube-proxy --cleanup` and others that know them know these.
 */
export const named = {
  portalsContainer: 'KUBE-PORTALS-CONTAINER',
  portalsHost: 'KUBE-PORTALS-HOST',
  nodePortContainer: 'KUBE-NODEPORT-CONTAINER',
  nodePortHost: 'KUBE-NODEPORT-HOST',
  nonLocal: 'KUBE-NODEPORT-NON-LOCAL',
} as const

/** At most 28 characters (iptables(8)), a number or hash included. */
const prefix = 'KUBE-USHER-'

/** What that mode never had. */
export const own = {
  /** nat: VIPs, and node ports, to proxy ports. */
  portals: `${prefix}PORTALS`,
  nodePorts: `${prefix}NODEPORTS`,
  /** filter: what was sent to the proxy address; of that, what begins a connection. */
  input: `${prefix}INPUT`,
  begin: `${prefix}NEW`,
  nodeOnly: `${prefix}NODE-ONLY`,
  notNode: `${prefix}NOT-NODE`,
  output: `${prefix}OUTPUT`,
  silence: `${prefix}SILENCE`,
  /** filter: VIPs, and node ports, that are refused at once. */
  refused: `${prefix}REFUSED`,
  refusedNodePorts: `${prefix}REFUSED-NP`,
  reject: `${prefix}REJECT`,
} as const

/** The chains a long one is spread over: `KUBE-USHER-P17`. */
export const partName = (letter: string, number: number): string =>
  `${prefix}${letter}${number}`

/** Of chains for a list of source ranges. */
export const rangesName = (letter: string, hash: string): string =>
  `${prefix}${letter}-${hash}`

const namedSet: ReadonlySet<string> = new Set(Object.values(named))

/** Whether a chain is Usher's, whichever process made it. */
export const isOwnChain = (chain: string): boolean =>
  chain.startsWith(prefix) || namedSet.has(chain)

/** A rule in a chain of the kernel's that leads into one of Usher's. */
export interface Jump {
  readonly table: TableName
  readonly chain: string
  /** As `iptables-save` prints it, after `-A CHAIN`. */
  readonly line: string
  readonly target: string
  readonly at: 'top' | 'end'
}

const comment = (text: string): string => `-m comment --comment "${text}"`
const portals = comment('handle ClusterIPs; NOTE: this must be before the NodePort rules')
const nodePorts = comment(
  'handle service NodePorts; NOTE: this must be the last rule in the chain',
)
const local = '-m addrtype --dst-type LOCAL'

const jump = (
  table: TableName,
  [chain, at]: readonly [string, Jump['at']],
  match: string,
  target: string,
): Jump => ({ table, chain, at, target, line: `${match} -j ${target}`.trim() })

/** As kube-proxy installed them; portals come before node ports in a chain. */
export const jumps: readonly Jump[] = [
  jump('nat', ['PREROUTING', 'top'], portals, named.portalsContainer),
  jump('nat', ['OUTPUT', 'top'], portals, named.portalsHost),
  jump('nat', ['PREROUTING', 'end'], `${local} ${nodePorts}`, named.nodePortContainer),
  jump('nat', ['OUTPUT', 'end'], `${local} ${nodePorts}`, named.nodePortHost),
  jump(
    'filter',
    ['INPUT', 'top'],
    comment('Ensure that non-local NodePort traffic can flow'),
    named.nonLocal,
  ),
  jump('filter', ['FORWARD', 'top'], '-m conntrack --ctstate NEW', own.refused),
  jump('filter', ['OUTPUT', 'top'], '', own.output),
]
