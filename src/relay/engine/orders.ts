import type { CapacityMemory } from '../counted-endpoints.ts'
import type { LimiterMemory } from '../connection-limiter.ts'
import type { Query } from '../queries.ts'
import type { Bind, RelayListener } from '../relay.ts'
import type { CommonOrder, CommonReport, CommonSetup } from '../remote/messages.ts'
import type { DescriptorsMemory } from './shared/descriptors.ts'
import type { Remembered } from '../../balance/affinity.ts'
import type { BatchLimits, GivenConnections, GivenFlows } from '../hand-over/moved.ts'

/** What a worker is started with (`workerData`). */
export interface WorkerSetup extends CommonSetup {
  /** 1, 2, ...; 0 is the main thread. */
  readonly thread: number
  readonly descriptors: DescriptorsMemory
  /** An eventfd that the main thread writes to after it has posted orders. */
  readonly wakeFd: number
  /** Those of all workers, that of thread 1 first: they outlast every thread. */
  readonly wakeFds: readonly number[]
  /** See `WorkerSigns`. */
  readonly signs: SharedArrayBuffer
  /** Those that there are already: they outlast a generation of workers. */
  readonly pages: Readonly<Record<PagesOf, readonly SharedArrayBuffer[]>>
}

/** Whose memory a page is: figures of a worker's own, or what all workers know of endpoints. */
export type PagesOf = 'listeners' | 'endpoints' | 'endpoint-state'

/** A listener for a worker: `slot` is where its figures are, and its name in orders. */
export interface ListenerOrder {
  readonly slot: number
  readonly spec: RelayListener
  /** Slots of the figures of `spec.endpoints`, in their order. */
  readonly endpointSlots: readonly number[]
  /** Of `SharedPlaces`, once its clients may wait. */
  readonly places?: SharedArrayBuffer | undefined
  /** Where connections to endpoints are counted over all workers. */
  readonly capacity?: CapacityMemory | undefined
  /** Once its connections are limited. */
  readonly limiter?: LimiterMemory | undefined
}

/**
 * From the main thread to a worker; carried out in the order of posting. They name slots of shared
 * memory and descriptors, which mean something within one process only.
 */
export type Order =
  | CommonOrder<WorkerCall>
  /** The next page. */
  | { readonly kind: 'page'; readonly of: PagesOf; readonly page: SharedArrayBuffer }
  /** New, or changed. */
  | ({ readonly kind: 'listener' } & ListenerOrder)
  /** Serve this listening socket, which the worker owns from now on. */
  | {
      readonly kind: 'open'
      readonly slot: number
      readonly bind: Bind
      readonly fd: number
      /** Once `adopt-flows` has brought the last of its flows. */
      readonly awaitsFlows?: boolean
    }
  /** Stop serving it and close it. */
  | { readonly kind: 'close'; readonly slot: number; readonly bind: Bind }
  /** Stop serving it and leave it open: it is about to be another listener's. */
  | { readonly kind: 'release'; readonly slot: number; readonly bind: Bind }
  /** The listener is not wanted any more; its sockets have been closed or released. */
  | { readonly kind: 'retire'; readonly slot: number }
  /** Where UDP clients can't be, because listeners of Usher's own are there. */
  | {
      readonly kind: 'own-binds'
      readonly added: readonly Bind[]
      readonly removed: readonly Bind[]
    }
  /** Affinity that has expired may be forgotten. */
  | { readonly kind: 'sweep' }
  /** Where affinity leads clients of a listener, as another process has it. */
  | {
      readonly kind: 'affinity'
      readonly slot: number
      readonly clients: readonly Remembered[]
    }

/** A listener's socket at an address. */
interface ListeningAt {
  readonly slot: number
  readonly bind: Bind
}

export type WorkerCall =
  /** Answered when all orders before have been carried out, by open flows, too. */
  | { readonly kind: 'mark' }
  /** Accept who has come so far: a socket that is closed resets them. */
  | { readonly kind: 'accept-queued' }
  /** Close all listening sockets; answered when the last TCP connection has ended. */
  | { readonly kind: 'stop-accepting' }
  /** Reset every connection, end every flow; answered with the number of connections. */
  | { readonly kind: 'kill' }
  /**
   * Another process is about to serve these listeners: accept no more, and close what listens for TCP
   * without a word to who waits there. UDP is served until its flows are given.
   */
  | { readonly kind: 'hand-over'; readonly listeners: readonly string[] }
  /** Answered with some of the connections to go, `GivenConnections`; nothing is done with them until `settle`. */
  | { readonly kind: 'give'; readonly batch: BatchLimits }
  | { readonly kind: 'settle'; readonly isTaken: boolean }
  /** Why connections have not gone: `Staying`. */
  | { readonly kind: 'staying' }
  /** These have come from another process, and their descriptors are this worker's; answered with their number. */
  | { readonly kind: 'adopt'; readonly given: GivenConnections }
  /** Answered with some flows of an address, `GivenFlows`; the first call takes it out of the loop, until `settle-flows`. */
  | ({ readonly kind: 'give-flows'; readonly most: number } & ListeningAt)
  /** `most` flows at a time; answered with how many are left to be settled. */
  | ({
      readonly kind: 'settle-flows'
      readonly isTaken: boolean
      readonly most: number
    } & ListeningAt)
  /** These have come from another process; answered with their number. */
  | ({ readonly kind: 'adopt-flows'; readonly given: GivenFlows } & ListeningAt)
  /** Where affinity leads clients of these listeners that was used within `ms`: for each one a list. */
  | { readonly kind: 'affinity'; readonly slots: readonly number[]; readonly ms: number }
  /** As of the contract, of the connections of this thread. */
  | Query

/** From a worker to the main thread. */
export type Report =
  | CommonReport<null>
  /** Nothing is left of a listener that was retired. */
  | { readonly kind: 'retired'; readonly slot: number }
