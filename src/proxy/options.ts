import type { AnswerOf } from '../observe/control-protocol.ts'
import type { CaptureName } from '../capture/capture.ts'
import type { PortRange } from '../capture/proxy-ports.ts'
import type { Problem } from '../model/snapshot.ts'
import type { ModeRequest } from '../mode/fallback-mode.ts'
import type { ModeName, Periods, KernelOptions } from '../mode/mode.ts'
import type { OperatorOrders } from '../mode/operator-orders.ts'
import type { HealthReport } from '../observe/health.ts'
import type { RequestCount } from '../observe/metrics-table.ts'
import type { Log } from '../observe/log.ts'
import type { StatusDocument } from '../observe/status.ts'
import type { Bind, DrainResult, HandedOver, RelayLimits } from '../relay/relay.ts'
import type { WantedRelay } from '../relay/choose-relay.ts'
import type { ClusterEvent } from '../source/kubernetes/event-recorder.ts'
import type { Source } from '../source/source.ts'
import type { Clock } from '../util/clock.ts'
import type { IpFamily } from '../util/ip.ts'

/** What carries connections and flows. */
export interface RelayOptions {
  /** Undefined: portable. */
  readonly relay?: WantedRelay
  /** Threads; 0: one for each core, at most 4. */
  readonly relayWorkers?: number
  /**
   * It runs in this process, which must start no others: between clone and exec a child
   * holds a copy of every descriptor, and what is closed meanwhile stays open.
   */
  readonly sharesProcess?: boolean
  /** For how long a data plane serves on whose control plane has crashed; 0: not at all. Milliseconds. */
  readonly orphanMs?: number
}

export interface CaptureOptions {
  /** Usher's own. */
  readonly version: string
  /**
   * `auto`: the best that works here. `vips-only`: listens on VIPs that are addresses of
   * this host, and changes nothing.
   */
  readonly capture: CaptureName | 'auto' | 'vips-only'
  /** What to do about a VIP that `vips-only` can't serve; '' where there is nothing. */
  readonly captureAdvice?: string
  /** Address of the proxy ports that clients dial themselves; see `boundProxyAddress`. */
  readonly bindAddress: string
  readonly proxyPortRange: PortRange | undefined
  /** Where ClusterIPs come from, besides what ServiceCIDR objects say. */
  readonly serviceCidr?: readonly string[]
  /** False: spec.externalIPs of Services are not served. */
  readonly externalIps?: boolean
  /**
   * --nodeport-addresses: CIDRs, `primary`, `localhost`, `all`. None is all, and `primary` where
   * nftables mode is asked for.
   */
  readonly nodePortAddresses?: readonly string[]
  /** Where proxy ports are remembered, and where a data plane waits that was left behind; '' for nowhere. */
  readonly stateDir?: string
  /** Rules and addresses stay at the end. */
  readonly keepRules?: boolean
}

/** Whether clients are led to endpoints as they connect, and where that is done. */
export interface ConnectTimeOptions {
  /** `auto`: where it works; `host`: only processes of the node's own network namespace. */
  readonly wanted: 'off' | 'on' | 'auto' | 'host'
  /** '' to look for the one that has all processes of the node. */
  readonly cgroup: string
  /** Groups below that one whose processes are not led, `*` for any text within a name. */
  readonly exempt: readonly string[]
  /** Where a bpffs is mounted. */
  readonly bpffs: string
}

export interface ProxyOptions extends CaptureOptions, RelayOptions {
  /** Undefined: no such server. */
  readonly metricsBindAddress: Bind | undefined
  readonly healthzBindAddress: Bind | undefined
  /** Path of the socket on which orders of operators are taken; '' for none. */
  readonly controlSocket?: string
  /** A server that can't listen ends Usher; else it is tried again every 5 s. */
  readonly bindHardFail?: boolean
  /** Undefined: userspace. */
  readonly mode?: ModeRequest
  /** Undefined where no kernel mode can be asked for. */
  readonly kernel?: KernelOptions
  /** Undefined: nobody is led, and nothing of it is looked for. */
  readonly connectTime?: ConnectTimeOptions
  /** Of the mode that runs at the start. */
  readonly periods: (mode: ModeName) => Periods
  readonly limits: RelayLimits
}

/** What the cluster says that modes and captures go by, as it is known now. */
export interface ClusterFacts {
  /** The Node this runs on; '' when there is none. */
  readonly nodeName: string
  /** Of pods whose traffic kernel modes take for this node's, as kube-proxy does, in both families. */
  readonly podCidrs: () => readonly string[]
  /**
   * Of this node's pods, for the relay, which would serve those of other nodes too: of those the podCIDRs
   * of the Node, where the host has an address in them. Else the network plugin may not go by them.
   */
  readonly nodePodCidrs: () => readonly string[]
  /** Where ClusterIPs come from: --service-cidr and ServiceCIDR objects, without those that hold a host. */
  readonly serviceCidrs: () => readonly string[]
  readonly serviceCidrProblems: () => readonly Problem[]
  /** Where node ports are; undefined: on all addresses of the family. */
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
  /** Addresses that are somewhere else, by what they are: made this host's own they would be lost. */
  readonly elsewhere: () => ReadonlyMap<string, string>
  /** Of IPv4 on any node, for what is settled before the Node is known. */
  readonly nodePortCidrsOfAnyNode: readonly string[] | undefined
}

/** What all parts of one proxy share. */
export interface Shared {
  readonly options: ProxyOptions
  readonly clock: Clock
  /** As Math.random. */
  readonly random: () => number
  readonly log: Log
  readonly facts: ClusterFacts
  /** What operators have ordered; in userspace mode. */
  readonly orders: OperatorOrders
  /** Asks for a sync soon. */
  readonly resync: () => void
  /** Notified of ServicePorts, by name, of whose endpoints one or all have failed. */
  readonly allFailed: (servicePort: string) => void
}

/** What only a proxy on a node of a cluster has, not one of manifests or routes. */
export interface NodeParts {
  /** The Node this runs on; '' when there is none. */
  readonly nodeName: string
  /**
   * Where `/healthz` is red while the Node is not known or about to go (KEP-3836): why it
   * is not known.
   */
  readonly nodeProblem?: () => string
  /** CIDRs of the pods that count as this node's clients. */
  readonly clusterCidrs: readonly string[]
  /** The podCIDRs of the Node count too. */
  readonly nodeCidrs: boolean
  /** Requests to the API server so far. */
  readonly requests?: () => readonly RequestCount[]
  /** For `/configz`. */
  readonly configuration?: () => object
  /** Sends an Event to the cluster. */
  readonly emit?: (event: ClusterEvent) => void
  /** Ends what these parts hold. */
  readonly close?: () => Promise<void>
}

export const noNode: NodeParts = {
  nodeName: '',
  clusterCidrs: [],
  nodeCidrs: false,
}

/** The Usher that serves here until this one takes its place, asked at its control socket. */
export interface Predecessor {
  readonly pid: number
  readonly version: string
  /** Asks for what it has. Rejects as orders do. */
  ask(hasRelay: boolean): Promise<AnswerOf<'take-over'>>
  /** Whether it still answers. */
  answers(): Promise<boolean>
}

/** The Usher that serves from now on, and what this one still has. */
export interface Successor {
  readonly pid: number
  readonly version: string
  /** Why it has got nothing; '' when it has. */
  readonly refused: string
  readonly connections: number
  readonly staying: HandedOver['staying']
}

export interface ProxyDeps {
  readonly source: Source
  readonly options: ProxyOptions
  readonly log: Log
  readonly node?: NodeParts
  /** Asks for the end; the metrics server has POST /quitquitquit for it. */
  readonly quit?: () => void
  /** Whose place it is to take. */
  readonly predecessor?: Predecessor | undefined
  /** Milliseconds after which a service manager takes one that is silent for dead. */
  readonly watchdogMs?: number | undefined
  /** Another Usher serves in this one's place. */
  readonly replaced?: (by: Successor) => void
  readonly clock?: Clock
  readonly random?: () => number
}

export interface OpenConnections {
  readonly open: number
  /** Since the start. */
  readonly accepted: number
}

export interface RunningProxy {
  /**
   * Resolves when the first state of the source has been applied, which may take as long
   * as an API server is away; rejects when that state can't be read.
   */
  readonly ready: Promise<void>
  status(): Promise<StatusDocument>
  /** How many ServicePorts there are, and how many things can't be honoured. */
  summary(): { readonly servicePorts: number; readonly problems: number }
  /** Addresses of the source's that can't be listened on now, and why not. */
  notListening(): readonly string[]
  /** `host:port` of the two servers; '' while there is none. */
  metricsAddress(): string
  healthzAddress(): string
  /** Connections and flows of all listeners. */
  connections(): Promise<OpenConnections>
  /** As `/healthz` and `/livez` say it. */
  health(): HealthReport
  /** Reads the source again; resolves when what was read of files is in effect, or 10 s have passed. */
  reload(): Promise<void>
  /** /healthz is red from now on; nothing else changes. */
  leave(): void
  /** A successor has all: lets go of what this one has besides, as the addresses of metrics, and of the control socket. */
  leaveToSuccessor(): Promise<void>
  /** Stops accepting, waits up to `ms` milliseconds, resets what is left. */
  drain(ms: number): Promise<DrainResult>
  /** Ends everything at once that `drain` has not ended. */
  close(): Promise<void>
}
