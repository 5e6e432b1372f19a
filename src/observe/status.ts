import type { PlacementKind } from '../capture/capture.ts'
import type { ModeName } from '../mode/mode.ts'
import type { Problem, Target, VipKind } from '../model/snapshot.ts'
import type { Protocol } from '../model/service.ts'
import type { SourceStatus } from '../source/source.ts'
import type { IpFamily } from '../util/ip.ts'

/** One VIP and how it is served. */
export interface VipStatus {
  readonly kind: VipKind
  /** `ip:port` that clients dial. */
  readonly vip: string
  readonly capture: PlacementKind
  /** `ip:port` that Usher listens on for it; '' when it does not. */
  readonly listen: string
  /** `forwarding`: the kernel leads clients to endpoints, and nothing listens. */
  readonly state:
    'listening' | 'forwarding' | 'binding' | 'refusing' | 'failed' | 'not captured'
  /** Why the state is what it is; '' when all is well. */
  readonly reason: string
}

/**
 * Whose new connections an endpoint may get: those of ClusterIPs (`internal`), and of all
 * other VIPs from outside the node (`external`) and from the node itself (`node`). They
 * differ by traffic policy.
 */
export type Clients = 'all' | 'none' | 'internal' | 'external' | 'node' | (string & {})

export interface EndpointStatus {
  /** `ip:port`. */
  readonly endpoint: string
  /** `ready`, `terminating` (serving, used when nothing is ready), `not ready`. */
  readonly state: 'ready' | 'terminating' | 'not ready'
  /** Gets new connections of some clients now. */
  readonly eligible: boolean
  /** Of which; several are joined with `+`. */
  readonly clients: Clients
  readonly active: number
  readonly failures: number
  /** It failed a moment ago, so that others are preferred while there are any. */
  readonly resting: boolean
}

/** What becomes of new clients, by where they come from; see `Clients`. */
export interface Verdicts {
  readonly internal: Target['verdict']
  readonly external: Target['verdict']
  readonly node: Target['verdict']
}

export interface ServicePortStatus {
  /** `namespace/name:port`. */
  readonly servicePort: string
  readonly protocol: Protocol
  readonly family: IpFamily
  readonly affinityMs: number
  readonly verdicts: Verdicts
  /** loadBalancerSourceRanges of the family; null: everybody. */
  readonly sourceRanges: readonly string[] | null
  readonly vips: readonly VipStatus[]
  readonly endpoints: readonly EndpointStatus[]
  readonly active: number
  readonly accepted: number
  /** Connections that ended in a failure, those ended by their clients apart. */
  readonly failed: number
  readonly retries: number
  readonly bytesToBackend: number
  readonly bytesToClient: number
  /** Both directions; 0 for TCP. */
  readonly datagrams: number
  readonly lastError: string
}

/** The node as the source knows it. */
export interface NodeStatus {
  readonly name: string
  /** '' when unknown. */
  readonly zone: string
  /** Why `/healthz` turns load balancers away although all is served; '' when it does not. */
  readonly notEligible: string
}

/** What was taken, of several that could be. */
export interface ChoiceStatus {
  /** As its flag names it. */
  readonly name: string
  /** Why, or with what; '' when there is nothing to say. */
  readonly detail: string
  /** What would have been better, and why it can't be had. */
  readonly passedOver: readonly { readonly name: string; readonly detail: string }[]
}

/** What carries the traffic. */
export interface ModeStatus extends ChoiceStatus {
  /** What asked for a mode, as in `--proxy-mode`; '' when nothing did. */
  readonly askedBy: string
}

/** What carries connections and flows. */
export interface RelayStatus {
  /** As --relay names it. */
  readonly name: string
  /** Why it was taken. */
  readonly detail: string
  /** Threads that carry connections. */
  readonly workers: number
  /** null where it is a part of the process that answers, as in a sidecar. */
  readonly ownProcess: {
    /** What that process may do, in words; '' where the system has no such thing. */
    readonly privileges: string
    /** Why it may do more than it has to; '' when it may not. */
    readonly excess: string
  } | null
  /** What would have been better, and why it can't be had. */
  readonly passedOver: ChoiceStatus['passedOver']
}

/** What `usher status` shows and `/status` on the metrics address serves. */
export interface StatusDocument {
  readonly version: string
  readonly mode: ModeName
  /** Why this mode runs; null where an older Usher answers. */
  readonly modeChoice: ModeStatus | null
  readonly startedAt: string
  readonly healthy: boolean
  /** What is red, in words; empty when healthy. */
  readonly unhealthy: readonly string[]
  readonly draining: boolean
  /** null where no node matters: manifests, routes. */
  readonly node: NodeStatus | null
  readonly source: SourceStatus
  /** How traffic for VIPs gets to Usher; null in the kernel modes, and of an older Usher. */
  readonly capture: ChoiceStatus | null
  /** What carries connections and flows; null as `capture` is. */
  readonly relay: RelayStatus | null
  readonly problems: readonly Problem[]
  /** Descriptors of the relay: its listening sockets and its connections. */
  readonly fds: { readonly used: number; readonly limit: number }
  readonly acceptPaused: boolean
  readonly servicePorts: readonly ServicePortStatus[]
}
