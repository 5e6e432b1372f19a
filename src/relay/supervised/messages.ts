import type { WantedRelay } from '../choose-relay.ts'
import type { ChosenRelay } from '../make-relay.ts'
import type { Privileges } from '../privileges.ts'
import type { Query } from '../queries.ts'
import type { HandOverPlace, RelayListener, RelayStats } from '../relay.ts'
import type { CommonOrder, CommonReport, CommonSetup } from '../remote/messages.ts'
import type { PackedListener } from './packed-stats.ts'

/** What a data plane is started with. */
export interface Setup extends CommonSetup {
  readonly relay: WantedRelay
  readonly openFileLimit: number
  /** Threads; 0: as many as fit the machine. */
  readonly workers: number
  /** Where the next control plane finds it if this one dies; undefined: it ends at once then. */
  readonly orphan?: OrphanPlace | undefined
}

/** A data plane without its control plane serves on here for a while, until another one takes over. */
export interface OrphanPlace extends Omit<HandOverPlace, 'refused'> {
  /** For how long it waits. Milliseconds. */
  readonly ms: number
}

/** What it has become. */
export interface DataPlaneSelf {
  readonly choice: ChosenRelay
  readonly privileges: Privileges | undefined
}

/** What has a result. */
export type Call =
  /** A part of what has changed; answered when it has been taken in. */
  | {
      readonly kind: 'change'
      readonly gone: readonly string[]
      readonly changed: readonly RelayListener[]
    }
  /** All changes are there: answered when the relay has applied them. */
  | { readonly kind: 'apply' }
  /** The first page of a read of the figures, or the next one. Reads are numbered: 1, 2, ... */
  | { readonly kind: 'stats'; readonly read: number }
  | { readonly kind: 'drain'; readonly ms: number }
  /** As of `HandsOver`. */
  | { readonly kind: 'hand-over' | 'handed-over' | 'finish-take-over' }
  | { readonly kind: 'take-over'; readonly place: HandOverPlace }
  /** As of the contract. */
  | Query

/** From the parent to the data plane. */
export type Order =
  | CommonOrder<Call>
  | { readonly kind: 'setup'; readonly setup: Setup }
  | { readonly kind: 'ping' }

/** One page of figures: what has changed since the page before, be it of another read. */
export interface StatsPage {
  readonly listeners: readonly PackedListener[]
  /** Listeners that there are no more, by id. */
  readonly gone: readonly string[]
  readonly last: boolean
  readonly whole: WholeStats
}

/** Figures of all listeners together. */
export type WholeStats = Pick<RelayStats, 'fds' | 'acceptPaused' | 'workers'>

/** From the data plane to its parent. */
export type Report =
  | CommonReport<DataPlaneSelf>
  /** There can't be a relay; the process ends. */
  | {
      readonly kind: 'cannot-start'
      readonly reason: string
      /** The relay that was asked for by name does not work here. */
      readonly unavailable: boolean
    }
  | { readonly kind: 'pong' }
