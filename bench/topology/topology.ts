/** Somewhere processes of the bench run: a network namespace, or simply this host. */
export interface Place {
  /** Goes before a command line to run it there; empty for this host. */
  readonly enter: readonly string[]
  /** What servers there listen on, so that all who should can reach them. */
  readonly listenAddress: string
}

/**
 * One target's own node, with the client and the backend pods for neighbours. That each
 * target has a node to itself keeps the rules of one out of the way of the others.
 */
export interface Lane extends Place {
  /** An address of the node: where a proxy listens, and the client finds it. */
  readonly nodeAddress: string
  /** The address of each pod, as the node and the client see them. */
  readonly podAddresses: readonly string[]
  /**
   * The n-th of 65 000 unassigned addresses, whose packets the client sends to this
   * node: ClusterIPs for captures. Undefined where there is no such thing.
   */
  readonly clusterIp?: (n: number) => string
  /** A range with all of them. */
  readonly clusterCidr?: string
}

/** Client, nodes and backend pods. */
export interface Topology {
  readonly kind: 'namespaces' | 'loopback'
  /** In a sentence, for the report. */
  readonly description: string
  readonly client: Place
  readonly pods: readonly Place[]
  /** Makes a node. Rejects (ToolError) when that fails. */
  lane(): Promise<Lane>
  close(): Promise<void>
}

const address = '127.0.0.1'
const here: Place = { enter: [], listenAddress: address }
const lane: Lane = { ...here, nodeAddress: address, podAddresses: [address, address] }

/**
 * Everything on this host's 127.0.0.1, told apart by ports only. Needs no privileges, and
 * works on all systems; captures with rules can't be measured on it.
 */
export const loopback = (): Topology => ({
  kind: 'loopback',
  description:
    "everything on 127.0.0.1, the host's sysctls: no links in between, and no ClusterIPs",
  client: here,
  pods: [here, here],
  lane: () => Promise.resolve(lane),
  close: () => Promise.resolve(),
})
