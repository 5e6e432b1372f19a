import type { ConnectionQueue } from '../../connection-queue.ts'
import type { Queues } from '../../endpoint-capacity.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'

/** The queues of all listeners of a worker, and the way to wake the other workers for theirs. */
export class WorkerQueues implements Queues {
  readonly worker: number
  readonly #calls: Syscalls
  readonly #wakeFds: readonly number[]
  readonly #one: NativeMemory
  readonly #all = new Set<ConnectionQueue>()

  /** `wakeFds`: eventfds of all workers, that of worker 1 first. */
  constructor(calls: Syscalls, worker: number, wakeFds: readonly number[]) {
    this.worker = worker
    this.#calls = calls
    this.#wakeFds = wakeFds
    this.#one = calls.allocate(8)
    this.#one.view.setBigUint64(0, 1n, true)
  }

  add(queue: ConnectionQueue): void {
    this.#all.add(queue)
  }

  remove(queue: ConnectionQueue): void {
    this.#all.delete(queue)
  }

  /** Another worker may have woken this one: it may be the turn of a client here. */
  woken(): void {
    for (const queue of this.#all) queue.woken()
  }

  wake(worker: number): void {
    const fd = this.#wakeFds[worker - 1]
    // The only error is a counter that is full (EAGAIN), and then the worker is awake.
    if (fd !== undefined) this.#calls.write(fd, this.#one.address, 8)
  }
}
