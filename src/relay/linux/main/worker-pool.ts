import { within } from '../../../util/within.ts'
import type { Order, WorkerCall } from '../orders.ts'
import { type WorkerDeps, WorkerHandle, type WorkerOwner } from './worker-handle.ts'

const leaveMs = 2000
/** Milliseconds for all connections to be reset: a worker that hangs must not hold up the end. */
const killMs = 2000

/** All workers of a relay. */
export class WorkerPool {
  readonly workers: readonly WorkerHandle[]
  readonly #deps: WorkerDeps
  readonly #onExit: () => void

  /** `count`: how many; 1 or more. */
  constructor(deps: WorkerDeps, count: number, owner: WorkerOwner) {
    this.#deps = deps
    this.workers = Array.from(
      { length: count },
      (_, i) => new WorkerHandle(deps, i + 1, owner),
    )
    // Else process.exit waits for threads that wait in the kernel.
    this.#onExit = () => this.workers.forEach(worker => worker.sayExit())
  }

  start(): void {
    process.on('exit', this.#onExit)
    for (const worker of this.workers) worker.start()
  }

  /** To every worker. */
  post(order: Order): void {
    for (const worker of this.workers) worker.post(order)
  }

  /** Resolves when every worker has carried out what was posted before. */
  async mark(): Promise<void> {
    await this.#call({ kind: 'mark' })
  }

  /** Resolves when no worker has a TCP connection any more. Workers that die are not replaced. */
  async stopAccepting(): Promise<void> {
    for (const worker of this.workers) worker.isLast()
    await this.#call({ kind: 'stop-accepting' })
  }

  /** Ends everything that is open; how many TCP connections that has reset. */
  async kill(): Promise<number> {
    let reset = 0
    const killed = this.workers.map(async worker => {
      const count = await worker.call({ kind: 'kill' })
      if (typeof count === 'number') reset += count
    })
    await within(this.#deps.clock, killMs, Promise.all(killed))
    return reset
  }

  /** Resolves when all threads have ended and nothing of theirs here is left. */
  async end(): Promise<void> {
    await Promise.all(this.workers.map(worker => worker.leave(leaveMs)))
    for (const worker of this.workers) worker.close()
    process.off('exit', this.#onExit)
  }

  /** What each answers; those that have died have done all that they could. */
  #call(call: WorkerCall): Promise<unknown> {
    return Promise.all(this.workers.map(worker => worker.call(call)))
  }
}
