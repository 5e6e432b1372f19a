import type { Clock, Timer } from '../../../util/clock.ts'
import { RestartPause } from '../../restart-pause.ts'
import type { Order, Report } from '../orders.ts'
import type { Syscalls } from '../syscalls.ts'
import {
  type CommonSetup,
  type HandleOwner,
  type WorkerProgram,
  WorkerHandle,
} from './worker-handle.ts'
import { WorkerWatch } from './worker-watch.ts'

export interface PoolDeps {
  readonly calls: Syscalls
  readonly clock: Clock
  readonly program: WorkerProgram
  readonly common: CommonSetup
  /** How many workers; 1 or more. */
  readonly count: number
}

/** What is not for the pool itself. */
export type RelayReport = Exclude<
  Report,
  { readonly kind: 'ready' | 'done' | 'idle' | 'killed' }
>

export interface PoolOwner {
  reported(worker: WorkerHandle, report: RelayReport): void
  /** A worker has ended; another is going to be `started`, unless the relay is ending. */
  died(worker: WorkerHandle, error: Error): void
  /** A worker has started that knows nothing yet. */
  started(worker: WorkerHandle): void
  /** It gives no sign of life, or the next in its place does. */
  hung(worker: WorkerHandle, hung: boolean): void
  /** A worker does not end: unless it does in 200 ms, the process is ended with it. */
  unendable(worker: WorkerHandle): void
  endProcess(): void
}

/** Clients wait in the queues of its sockets meanwhile, though others work. */
const longestPauseMs = 1000
const leaveMs = 2000
/** Milliseconds that a worker has to end in when it is ended by force. */
const endMs = 1000
/** Milliseconds for what was told last to be heard. */
const lastWordsMs = 200
/** Milliseconds for all connections to be reset: a worker that hangs must not hold up the end. */
const killMs = 2000

interface Life {
  readonly pause: RestartPause
  startedAt: number
  timer: Timer | undefined
}

/** The workers, each replaced when it dies: at once, then with growing delays (to 1 s). */
export class WorkerPool implements HandleOwner {
  readonly workers: readonly WorkerHandle[]
  readonly #deps: PoolDeps
  readonly #owner: PoolOwner
  readonly #lives = new Map<WorkerHandle, Life>()
  readonly #watch: WorkerWatch
  readonly #hung = new Set<WorkerHandle>()
  /** By number of the mark: who has not come to it yet. */
  readonly #marks = new Map<number, Wait>()
  #lastMark = 0
  #idle: Wait | undefined
  #killed: Wait | undefined
  #reset = 0
  #ending = false
  readonly #onExit: () => void

  constructor(deps: PoolDeps, owner: PoolOwner) {
    this.#deps = deps
    this.#owner = owner
    const { calls, count } = deps
    this.workers = Array.from({ length: count }, (_, i) => {
      return new WorkerHandle(calls, i + 1, this)
    })
    this.#watch = new WorkerWatch(deps.clock, this.workers, (worker, ms) => {
      this.#silent(worker, ms)
    })
    // Else process.exit waits for threads that wait in the kernel.
    this.#onExit = () => this.workers.forEach(worker => worker.sayExit())
  }

  start(): void {
    process.on('exit', this.#onExit)
    for (const worker of this.workers) {
      this.#lives.set(worker, {
        pause: new RestartPause(longestPauseMs),
        startedAt: 0,
        timer: undefined,
      })
      this.#startOne(worker)
    }
    this.#watch.start()
  }

  /** To every worker. */
  post(order: Order): void {
    for (const worker of this.workers) worker.post(order)
  }

  /** Resolves when every worker has carried out what was posted before. */
  mark(): Promise<void> {
    this.#lastMark += 1
    const id = this.#lastMark
    return this.#ask({ kind: 'mark', id }, wait => this.#marks.set(id, wait)).then(
      () => void this.#marks.delete(id),
    )
  }

  /** Resolves when no worker has a TCP connection any more. Workers that die are not replaced. */
  stopAccepting(): Promise<void> {
    this.#ending = true
    for (const { timer } of this.#lives.values()) this.#deps.clock.clearTimeout(timer)
    return this.#ask({ kind: 'stop-accepting' }, wait => (this.#idle = wait))
  }

  /** Ends everything that is open; how many TCP connections that has reset. */
  async kill(): Promise<number> {
    this.#watch.stop()
    const killed = this.#ask({ kind: 'kill' }, wait => (this.#killed = wait))
    const { clock } = this.#deps
    let timer: Timer | undefined
    const over = new Promise<void>(resolve => {
      timer = clock.setTimeout(resolve, killMs)
    })
    await Promise.race([killed, over])
    clock.clearTimeout(timer)
    return this.#reset
  }

  /** Resolves when all threads have ended and nothing of theirs here is left. */
  async end(): Promise<void> {
    this.#watch.stop()
    const leaving = this.workers.map(worker =>
      this.#orEndProcess(worker, leaveMs + endMs, worker.leave(leaveMs)),
    )
    await Promise.all(leaving)
    process.off('exit', this.#onExit)
    for (const worker of this.workers) worker.close()
  }

  reported(worker: WorkerHandle, report: Report): void {
    switch (report.kind) {
      case 'ready':
        worker.isReady = true
        if (this.#hung.delete(worker)) this.#owner.hung(worker, false)
        return
      case 'done':
        this.#marks.get(report.id)?.done(worker)
        return
      case 'idle':
        this.#idle?.done(worker)
        return
      case 'killed':
        this.#reset += report.reset
        this.#killed?.done(worker)
        return
      case 'records':
      case 'last-error':
      case 'fault':
      case 'accept-paused':
      case 'retired':
        this.#owner.reported(worker, report)
    }
  }

  died(worker: WorkerHandle, error: Error): void {
    for (const wait of [...this.#marks.values(), this.#idle, this.#killed]) {
      wait?.done(worker)
    }
    this.#owner.died(worker, error)
    const life = this.#lives.get(worker)
    if (this.#ending || life === undefined) return
    worker.restarts += 1
    const { clock } = this.#deps
    const pause = life.pause.after(clock.now() - life.startedAt)
    if (pause === 0) this.#startOne(worker)
    else life.timer = clock.setTimeout(() => this.#startOne(worker), pause)
  }

  #silent(worker: WorkerHandle, ms: number): void {
    worker.hangs += 1
    if (!this.#hung.has(worker)) this.#owner.hung(worker, true)
    this.#hung.add(worker)
    const ended = worker.terminate(`it gave no sign of life for ${ms / 1000} s`)
    void this.#orEndProcess(worker, endMs, ended)
  }

  /** Resolves when the worker has `ended`; one that has not within `ms` takes the process along. */
  async #orEndProcess(
    worker: WorkerHandle,
    ms: number,
    ended: Promise<void>,
  ): Promise<void> {
    const { clock } = this.#deps
    let timer = clock.setTimeout(() => {
      this.#owner.unendable(worker)
      timer = clock.setTimeout(() => this.#owner.endProcess(), lastWordsMs)
    }, ms)
    await ended.finally(() => clock.clearTimeout(timer))
  }

  #startOne(worker: WorkerHandle): void {
    const { program, common, clock } = this.#deps
    const life = this.#lives.get(worker)
    if (this.#ending || life === undefined) return
    life.startedAt = clock.now()
    try {
      worker.start(program, common)
    } catch (error) {
      // No thread to be had, for instance (EAGAIN, pids.max of a cgroup).
      this.died(worker, error as Error)
      return
    }
    this.#owner.started(worker)
  }

  #ask(order: Order, asked: (wait: Wait) => void): Promise<void> {
    return new Promise(resolve => {
      const wait = new Wait(this.workers, resolve)
      asked(wait)
      for (const worker of this.workers) {
        worker.post(order)
        worker.flush()
      }
      wait.check()
    })
  }
}

/** Something that each worker has to say. */
class Wait {
  readonly #missing: Set<WorkerHandle>
  readonly #resolve: () => void

  constructor(workers: readonly WorkerHandle[], resolve: () => void) {
    this.#missing = new Set(workers.filter(({ isTaken }) => isTaken))
    this.#resolve = resolve
  }

  done(worker: WorkerHandle): void {
    this.#missing.delete(worker)
    this.check()
  }

  check(): void {
    if (this.#missing.size === 0) this.#resolve()
  }
}
