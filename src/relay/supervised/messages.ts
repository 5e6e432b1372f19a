import type { Cause } from '../cause.ts'
import type { WantedRelay } from '../choose-relay.ts'
import type { ChosenRelay } from '../make-relay.ts'
import type { Privileges } from '../privileges.ts'
import type {
  BindState,
  ConnectionRecord,
  NodeClients,
  RelayLimits,
  RelayListener,
  RelayStats,
} from '../relay.ts'
import type { PackedListener } from './packed-stats.ts'

/** What a data plane is born with. */
export interface Setup {
  readonly relay: WantedRelay
  readonly limits: RelayLimits
  /** The ends of connections of which a record is wanted. */
  readonly wantedCauses: readonly Cause[]
  readonly openFileLimit: number
  /** Threads; 0: as many as fit the machine. */
  readonly workers: number
}

/** What it has become. */
export interface DataPlaneSelf {
  readonly choice: ChosenRelay
  readonly privileges: Privileges | undefined
}

/** What has an answer: `done` or `failed` with the same id. */
export type Call =
  /** A part of what has changed; answered when it has been taken in. */
  | {
      readonly kind: 'change'
      readonly gone: readonly string[]
      readonly changed: readonly RelayListener[]
    }
  /** All changes are there: answered when the relay has applied them. */
  | { readonly kind: 'apply' }
  /** The first page of a look at the figures, or the next one. Looks are numbered: 1, 2, ... */
  | { readonly kind: 'stats'; readonly look: number }
  | { readonly kind: 'drain'; readonly ms: number }

/** From the parent to the data plane. */
export type Order =
  | { readonly kind: 'setup'; readonly setup: Setup }
  | { readonly kind: 'call'; readonly id: number; readonly call: Call }
  | { readonly kind: 'ping' }
  /** The last `news` have been read: there may be more. */
  | { readonly kind: 'news-taken' }
  /** As `Relay.setNodeClients`. */
  | { readonly kind: 'node-clients'; readonly clients: NodeClients }
  | { readonly kind: 'exit' }

/** One page of figures. */
export interface StatsPage {
  readonly listeners: readonly PackedListener[]
  readonly last: boolean
  readonly whole: WholeStats
}

/** What there is to say of all listeners together. */
export type WholeStats = Pick<RelayStats, 'fds' | 'acceptPaused' | 'workers'>

/** What the relay has told its observer. */
export interface News {
  readonly binds: readonly (readonly [listener: string, state: BindState])[]
  readonly records: readonly ConnectionRecord[]
  readonly pauses: readonly (readonly [paused: boolean, used: number, limit: number])[]
  readonly hung: readonly (readonly [thread: number, hung: boolean])[]
  readonly faults: readonly (readonly [listener: string, error: Error])[]
  /** Records and faults for which there was no room. */
  readonly lost: number
}

/** From the data plane to its parent. */
export type Report =
  /** The relay is there and takes calls. */
  | { readonly kind: 'ready'; readonly self: DataPlaneSelf }
  /** There can't be one; the process ends. */
  | {
      readonly kind: 'cannot-start'
      readonly why: string
      /** The relay that was asked for by name does not work here. */
      readonly unavailable: boolean
    }
  | { readonly kind: 'pong' }
  | { readonly kind: 'done'; readonly id: number; readonly result: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly error: Error }
  | { readonly kind: 'news'; readonly news: News }
