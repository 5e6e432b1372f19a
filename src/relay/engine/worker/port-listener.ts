import type { Bind } from '../../relay.ts'
import type { ListenerOrder } from '../orders.ts'
import type { ListenerState } from './listener-state.ts'

/** One ServicePort in a worker: its sockets, balancer and connections or flows. */
export interface PortListener {
  readonly service: ListenerState
  /** Takes over what is wanted now, for open flows too. */
  update(order: ListenerOrder): void
  /** Serves a listening socket, which is the listener's own from now on. */
  open(bind: Bind, fd: number, awaitsFlows?: boolean): void
  /** Stops serving an address; gives its descriptor, which the caller owns then, or -1. */
  release(bind: Bind): number
  /** No new connections or flows from now on, though sockets may stay open. */
  stopAccepting(): void
  /** Not wanted any more. What is open goes on; `ListenerOwner.retired` when it has ended. */
  retire(): void
  /** Ends everything; how many TCP connections that has reset. */
  kill(): number
}

/** Who keeps the listeners of a worker. */
export interface ListenerOwner {
  /** Nothing is left of a retired listener. */
  retired(slot: number): void
  /** A TCP connection has ended. */
  connectionEnded(): void
}
