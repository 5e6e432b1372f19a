import type { Cause } from '../cause.ts'
import type {
  Bind,
  ConnectionRecord,
  NodeClients,
  RelayLimits,
  RelayListener,
} from '../relay.ts'
import type { DescriptorsMemory } from './shared/descriptors.ts'

/** What a worker is born with (`workerData`). */
export interface WorkerSetup {
  /** 1, 2, ...; 0 is the main thread. */
  readonly thread: number
  readonly limits: RelayLimits
  /** The ends of connections of which a record is wanted. */
  readonly wantedCauses: readonly Cause[]
  readonly descriptors: DescriptorsMemory
  /** An eventfd that the main thread writes to after it has posted orders. */
  readonly wakeFd: number
  /** See `WorkerSigns`. */
  readonly signs: SharedArrayBuffer
  /** Pages of figures that there are already, when it replaces a worker that died. */
  readonly listenerPages: readonly SharedArrayBuffer[]
  readonly endpointPages: readonly SharedArrayBuffer[]
}

/** A listener for a worker: `slot` is where its figures are, and its name in orders. */
export interface ListenerOrder {
  readonly slot: number
  readonly spec: RelayListener
  /** Slots of the figures of `spec.endpoints`, in their order. */
  readonly endpointSlots: readonly number[]
}

/** From the main thread to a worker; carried out in the order of posting. */
export type Order =
  | { readonly kind: 'listener-page'; readonly page: SharedArrayBuffer }
  | { readonly kind: 'endpoint-page'; readonly page: SharedArrayBuffer }
  /** New, or changed. */
  | ({ readonly kind: 'listener' } & ListenerOrder)
  /** Serve this listening socket, which the worker owns from now on. */
  | {
      readonly kind: 'open'
      readonly slot: number
      readonly bind: Bind
      readonly fd: number
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
  /** As `Relay.setNodeClients`. */
  | { readonly kind: 'node-clients'; readonly clients: NodeClients }
  /** Affinity that has expired may be forgotten. */
  | { readonly kind: 'sweep' }
  /** Close all listening sockets; say `idle` when the last TCP connection has ended. */
  | { readonly kind: 'stop-accepting' }
  /** Reset every connection, end every flow; answer `killed`. */
  | { readonly kind: 'kill' }
  /** Answer `done` with the same number: all orders before have been carried out. */
  | { readonly kind: 'mark'; readonly id: number }
  /** The thread ends. */
  | { readonly kind: 'exit' }

/** From a worker to the main thread. */
export type Report =
  /** It runs, and has what it needs. */
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly id: number }
  /** Connections that have ended, and how many more for which there was no room. */
  | {
      readonly kind: 'records'
      readonly records: readonly ConnectionRecord[]
      readonly lost: number
    }
  /** What went wrong last with a listener, for the status. */
  | { readonly kind: 'last-error'; readonly slot: number; readonly text: string }
  /** Something that must not happen; the text has the stack. */
  | { readonly kind: 'fault'; readonly listener: string; readonly text: string }
  /** It accepts no more for want of descriptors, or does again. */
  | { readonly kind: 'accept-paused'; readonly paused: boolean }
  /** Nothing is left of a listener that was retired. */
  | { readonly kind: 'retired'; readonly slot: number }
  /** After `stop-accepting`: no TCP connection is left. */
  | { readonly kind: 'idle' }
  | { readonly kind: 'killed'; readonly reset: number }
