import type { Problem, VipKind } from '../model/snapshot.ts'
import type { Protocol } from '../model/service.ts'
import type { SourceStatus } from '../source/source.ts'
import type { IpFamily } from '../util/ip.ts'

/** One VIP and how it is served. */
export interface VipStatus {
  readonly kind: VipKind
  /** `ip:port` that clients dial. */
  readonly vip: string
  /** `local` (Usher listens on the VIP itself), `none` (a proxy port), `not captured`. */
  readonly capture: 'local' | 'none' | 'not captured'
  /** `ip:port` that Usher listens on for it; '' when it does not. */
  readonly listen: string
  readonly state: 'listening' | 'binding' | 'refusing' | 'failed' | 'not captured'
  /** Why the state is what it is; '' when all is well. */
  readonly reason: string
}

export interface EndpointStatus {
  /** `ip:port`. */
  readonly endpoint: string
  /** `ready`, `terminating` (serving, used when nothing is ready), `not ready`. */
  readonly state: 'ready' | 'terminating' | 'not ready'
  /** Gets new connections now. */
  readonly eligible: boolean
  readonly active: number
  readonly failures: number
}

export interface ServicePortStatus {
  /** `namespace/name:port`. */
  readonly servicePort: string
  readonly protocol: Protocol
  readonly family: IpFamily
  readonly affinityMs: number
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

/** What `usher status` shows and `/status` on the metrics address serves. */
export interface StatusDocument {
  readonly version: string
  readonly mode: 'userspace'
  readonly startedAt: string
  readonly healthy: boolean
  /** What is red, in words; empty when healthy. */
  readonly unhealthy: readonly string[]
  readonly draining: boolean
  readonly source: SourceStatus
  readonly problems: readonly Problem[]
  readonly fds: { readonly used: number; readonly limit: number }
  readonly acceptPaused: boolean
  readonly servicePorts: readonly ServicePortStatus[]
}
