import {
  type Jump,
  jumpComment,
  jumpTo,
  newConnection,
  type TableName,
} from './wanted.ts'

/**
 * Chains that packets of the kernel's reach first: named as kube-proxy's userspace mode
 * named them, so that `kube-proxy --cleanup` and others that know them know these.
 */
export const userspaceChains = {
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
  /** nat: the same of those that only this node's clients are led by. */
  ofNode: `${prefix}PORTALS-NODE`,
  nodePortsOfNode: `${prefix}NODEPORTS-NODE`,
  /** filter: what was sent to the proxy address; of that, what begins a connection. */
  input: `${prefix}INPUT`,
  begin: `${prefix}NEW`,
  output: `${prefix}OUTPUT`,
  silence: `${prefix}SILENCE`,
  /** filter: VIPs, and node ports, that are refused or dropped. */
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

const portals = jumpComment(
  'handle ClusterIPs; NOTE: this must be before the NodePort rules',
)
const nodePorts = `-m addrtype --dst-type LOCAL ${jumpComment(
  'handle service NodePorts; NOTE: this must be the last rule in the chain',
)}`

/**
 * As kube-proxy installed them. Portals come before node ports in a chain: a VIP may be one
 * of the host's addresses.
 */
export const jumps: Readonly<Record<TableName, readonly Jump[]>> = {
  nat: [
    jumpTo('PREROUTING', userspaceChains.portalsContainer, portals),
    jumpTo('OUTPUT', userspaceChains.portalsHost, portals),
    jumpTo('PREROUTING', userspaceChains.nodePortContainer, nodePorts, 'end'),
    jumpTo('OUTPUT', userspaceChains.nodePortHost, nodePorts, 'end'),
  ],
  filter: [
    jumpTo(
      'INPUT',
      userspaceChains.nonLocal,
      jumpComment('Ensure that non-local NodePort traffic can flow'),
    ),
    jumpTo('FORWARD', own.refused, newConnection),
    jumpTo('OUTPUT', own.output, ''),
  ],
}
