import type { Syscalls } from '../../ffi/syscalls.ts'
import type { RelayProtocol } from '../../model/service.ts'
import type { PlacedSocket } from '../../util/placed-socket.ts'
import type { Bind } from '../relay.ts'
import type { Channel, Remote } from '../remote/remote.ts'
import type { Order, WorkerCall, WorkerSetup } from './orders.ts'

/** How the engine has sockets: `sockets/linux` by system calls, `sockets/node` by Node's own. */
export interface SocketLayer {
  /** Of the main thread. */
  readonly calls: Syscalls
  readonly listening: ListeningLayer
  /** Workers are threads, of which one may hang or die while others go on. */
  readonly hasThreads: boolean
  readonly startWorker: StartWorker
}

/** The sockets of one address, in the order of workers. */
export interface OpenedSockets {
  readonly fds: readonly number[]
  /** Of a unix socket. */
  readonly file: PlacedSocket | undefined
}

/** Opens the sockets that workers serve. */
export interface ListeningLayer {
  /** Whether a socket may have its port and not listen, yet or any more. */
  readonly keepsPorts: boolean
  /**
   * `count` sockets at one address among which the kernel shares clients out. Rejects with the
   * errno's name as `code`, or CANNOT_LISTEN, and leaves none open. `isIdle`: they are bound, and yet to listen.
   */
  open(
    protocol: RelayProtocol,
    bind: Bind,
    count: number,
    isIdle: boolean,
  ): Promise<OpenedSockets>
  /** Has one listen that only had its port. Throws as `open` rejects. */
  listen(fd: number, bind: Bind): void
}

/** The way to a worker. */
export interface WorkerChannel extends Channel<WorkerCall> {
  send(order: Order): void
}

/** Starts a worker; throws where it can't. */
export type StartWorker = (
  setup: WorkerSetup,
  remote: Remote<WorkerCall, null>,
  /** Nothing is left of the listener in this slot. */
  retired: (slot: number) => void,
) => WorkerChannel
