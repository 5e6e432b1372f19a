import type { BalanceOptions } from '../model/traffic.ts'
import type { AddressPort } from '../util/ip.ts'
import type { BrokenLimit } from './connection-limiter.ts'

/*
 * Which endpoint a client would get, and why not another, as explain-pick.ts finds out. Plain data; times
 * are milliseconds from now.
 */

export interface ExplainQuery {
  /** Id of a listener. */
  readonly listener: string
  /** One of its addresses. */
  readonly bind: AddressPort
  /** Canonical. */
  readonly client: string
  /** The address that the client's connection would have at this end. */
  readonly dialled: string
}

export interface Explanation {
  /** Why the address is not listened on, so that the kernel refuses; '' where it is. */
  readonly closed: string
  readonly by: BalanceOptions['by']
  /** Each has turns and affinity of its own. */
  readonly workers: readonly WorkerView[]
}

export interface WorkerView {
  /** 1, 2, ... */
  readonly thread: number
  /** Whether the client's connections may come to this worker. */
  readonly mayCome: boolean
  /** `waits`: for an endpoint to come back, or the end of a pause; `queues`: for a place at one. */
  readonly outcome: 'served' | 'waits' | 'queues' | 'refused'
  /** '' when it would be served, and nothing is to be said. */
  readonly reason:
    | ''
    | 'prober'
    | 'not allowed'
    | 'no endpoint'
    | 'paused'
    | 'full'
    | 'queue'
    | 'too many wait'
    | BrokenLimit
  /** For how long it may wait. */
  readonly waitMs: number
  /** Keys of those of which it would get one, by chance where there are several. */
  readonly candidates: readonly string[]
  /** Where it was before, and for how long that counts if it does not come. */
  readonly affinity: { readonly key: string; readonly leftMs: number } | undefined
  /** All that are listed. */
  readonly endpoints: readonly EndpointView[]
}

export interface EndpointView {
  readonly key: string
  /**
   * Why such clients do not get it now, but for affinity; '' where it has its turns. `other clients`: a
   * policy keeps these from it. `tier`, `weight`: it is for when the others fail.
   */
  readonly against:
    '' | 'drained' | 'other clients' | 'full' | 'cooling down' | 'tier' | 'weight'
  /** 0: it does not cool down. */
  readonly cooldownMs: number
  /** In a row; more than 0 when its cooldown is over: the next connection tries it. */
  readonly failures: number
  /** A connection tries it now. */
  readonly isProbed: boolean
  /** In this worker. */
  readonly lastFailure: { readonly reason: string; readonly agoMs: number } | undefined
  /** TCP connections and dials, or UDP flows; of all workers where they are counted. */
  readonly connections: number
  readonly tier: number
  readonly weight: number
}
