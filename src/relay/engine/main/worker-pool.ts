import { within } from '../../../util/clock.ts'
import type { BatchLimits, GivenConnections, Staying } from '../../hand-over/moved.ts'
import type { RemoteEnding } from '../../remote/remote.ts'
import { Restarts } from '../../remote/restarts.ts'
import type { Order, WorkerCall } from '../orders.ts'
import type { Given } from './hand-over.ts'
import { type WorkerDeps, WorkerHandle, type WorkerOwner } from './worker-handle.ts'

const leaveMs = 2000
/** Milliseconds for queued clients to be accepted, and for all connections to be reset: a worker that hangs must not hold up the end. */
const killMs = 2000

/** Clients wait in the queues of sockets until workers are there again. Milliseconds. */
const longestPauseMs = 1000

/** Who has a WorkerPool. */
export interface PoolOwner extends Pick<WorkerOwner, 'observerOf' | 'retired'> {
  /** A thread has ended by itself, or was ended as it hung: the others follow. */
  died(worker: WorkerHandle, error: Error): void
  /** All threads of a generation have ended. */
  over(): void
  /** All threads of the next one have started, and know nothing yet. */
  started(): void
}

/**
 * All workers of a relay. Their threads live and die together, as one generation: what they count in shared
 * memory is right or gone, and none takes another's place while others go on.
 */
export class WorkerPool {
  readonly workers: readonly WorkerHandle[]
  readonly #deps: WorkerDeps
  readonly #owner: PoolOwner
  readonly #restarts: Restarts
  readonly #onExit: () => void
  #generations = 0
  /** 1, 2, ...; 0 while no thread is left of one, and the next is to come. */
  generation = 0
  /** How long the first thread of the generation to end had lived; undefined while all do. */
  #livedMs: number | undefined
  #isLast = false

  /** `count`: how many; 1 or more. */
  constructor(deps: WorkerDeps, count: number, owner: PoolOwner) {
    this.#deps = deps
    this.#owner = owner
    this.#restarts = new Restarts(deps.clock, longestPauseMs, () => this.#start())
    const workerOwner: WorkerOwner = {
      ...owner,
      wakeFds: () => this.workers.map(({ wakeFd }) => wakeFd),
      died: (worker, ending) => this.#died(worker, ending),
    }
    this.workers = Array.from(
      { length: count },
      (_, i) => new WorkerHandle(deps, i + 1, workerOwner),
    )
    // Else process.exit waits for threads that wait in the kernel.
    this.#onExit = () => this.workers.forEach(worker => worker.requestExit())
  }

  start(): void {
    process.on('exit', this.#onExit)
    this.#start()
  }

  #start(): void {
    this.#livedMs = undefined
    this.#generations += 1
    this.generation = this.#generations
    for (const worker of this.workers) {
      worker.start()
      // There was no thread to be had, and those before it are being ended.
      if (this.#livedMs !== undefined) return
    }
    this.#owner.started()
  }

  #died(worker: WorkerHandle, { error, livedMs }: RemoteEnding): void {
    const isFirst = this.#livedMs === undefined
    this.#livedMs ??= livedMs
    if (isFirst) {
      worker.deaths += 1
      this.#owner.died(worker, error)
      for (const other of this.workers) other.kill(`worker ${worker.thread} has died`)
    }
    if (this.workers.some(({ isThere }) => isThere)) return
    this.generation = 0
    this.#owner.over()
    if (this.#isLast) return
    this.#restarts.startIn(this.#restarts.pauseAfter(this.#livedMs))
  }

  /** To every worker. */
  post(order: Order): void {
    for (const worker of this.workers) worker.post(order)
  }

  /** Resolves when every worker has carried out what was posted before. */
  async mark(): Promise<void> {
    await this.#call({ kind: 'mark' })
  }

  /**
   * Resolves when every worker has accepted who came before; one that hangs is not waited for.
   * When they die from now on there are no others.
   */
  async acceptQueued(): Promise<void> {
    this.#isLast = true
    this.#restarts.stop()
    await within(this.#deps.clock, killMs, this.#call({ kind: 'accept-queued' }))
  }

  /** They close what listens, which is another process's now. */
  async handOver(listeners: readonly string[]): Promise<void> {
    this.#isLast = true
    this.#restarts.stop()
    await this.#call({ kind: 'hand-over', listeners })
  }

  /** Some connections of each worker that has any to give. */
  async *give(batch: BatchLimits): AsyncGenerator<Given> {
    for (const worker of this.workers) {
      const given = (await worker.call({ kind: 'give', batch })) as
        GivenConnections | undefined
      if (given === undefined || given.connections.length === 0) continue
      const settle = async (isTaken: boolean): Promise<void> =>
        void (await worker.call({ kind: 'settle', isTaken }))
      const { connections, fds } = given
      yield { parts: [{ told: { kind: 'connections', connections }, fds }], settle }
    }
  }

  async staying(): Promise<Staying> {
    const counts: Record<string, number> = {}
    // One that has died has none.
    for (const some of (await this.#call({ kind: 'staying' })) as (Staying | undefined)[])
      for (const [why, count] of Object.entries(some ?? {}))
        counts[why] = (counts[why] ?? 0) + count
    return counts
  }

  /** Resolves when no worker has a TCP connection any more. */
  async stopAccepting(): Promise<void> {
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
  #call(call: WorkerCall): Promise<readonly unknown[]> {
    return Promise.all(this.workers.map(worker => worker.call(call)))
  }
}
