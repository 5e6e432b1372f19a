import type { AccessBatch, BindState, NodeClients, RelayLimits } from '../relay.ts'
import type { Cause, ConnectionRecord } from '../cause.ts'

/**
 * The messages between a relay and its worker threads, and a control plane and its data plane:
 * orders one way, carried out as they come, reports the other. Each pair has messages of its own
 * besides.
 */
export type CommonOrder<Call> =
  /** Answered by `done` or `failed` with the same number. */
  | { readonly kind: 'call'; readonly id: number; readonly call: Call }
  /** A message of news has been read: there may be another. */
  | { readonly kind: 'news-taken' }
  /** As `Relay.setNodeClients`. */
  | { readonly kind: 'node-clients'; readonly clients: NodeClients }
  /** The last one. */
  | { readonly kind: 'exit' }

export type CommonReport<Self> =
  /** It takes orders. */
  | { readonly kind: 'ready'; readonly self: Self }
  | { readonly kind: 'done'; readonly id: number; readonly result: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly error: Error }
  | { readonly kind: 'news'; readonly news: News }

/** What is the same for all that serve the same listeners. */
export interface CommonSetup {
  readonly limits: RelayLimits
  /** The ends of connections of which a record is wanted. */
  readonly wantedCauses: readonly Cause[]
}

/** What there is for a RelayObserver. */
export interface News {
  /** In the order of their last change. */
  readonly states: readonly StateNews[]
  readonly records: readonly ConnectionRecord[]
  readonly faults: readonly (readonly [listener: string, error: Error])[]
  readonly accessLines: readonly AccessBatch[]
  /** Records and faults for which there was no room. */
  readonly lost: number
}

/** How something is now: an earlier one that is still on its way need not arrive. */
export type StateNews =
  | { readonly kind: 'bind'; readonly listener: string; readonly state: BindState }
  | {
      readonly kind: 'accept-paused'
      readonly paused: boolean
      readonly used: number
      readonly limit: number
    }
  | { readonly kind: 'hung'; readonly thread: number; readonly hung: boolean }
  /** A client of the listener has found that all endpoints fail. */
  | { readonly kind: 'all-failed'; readonly listener: string }
  /** What went wrong last with a listener, for the status. Only of a worker. */
  | { readonly kind: 'last-error'; readonly slot: number; readonly text: string }
