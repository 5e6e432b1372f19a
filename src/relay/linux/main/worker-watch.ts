import type { Clock, Timer } from '../../../util/clock.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** Of a worker's worker, what is watched. */
export type WatchedWorker = Pick<
  WorkerHandle,
  'signs' | 'isTaken' | 'isReady' | 'restarts'
>

const lookMs = 250
/** Looks in a row without a sign of life: 1.5 s. A worker at rest gives two a second. */
const mostSilent = 6
/** A worker that is being started loads its program first: 30 s. */
const mostSilentAtStart = 120

/** What was seen of a worker; when any of it is another, it is counted anew. */
interface Seen {
  readonly beats: number
  readonly isReady: boolean
  /** By which a worker is told from its successor. */
  readonly restarts: number
  silent: number
  isTold: boolean
}

/**
 * Notices workers that spin, or sleep in a call. Looks are counted, not time: while the whole
 * process is stopped, or gets no CPU, there are no looks.
 */
export class WorkerWatch<S extends WatchedWorker = WorkerHandle> {
  readonly #clock: Clock
  readonly #workers: readonly S[]
  readonly #silent: (worker: S, ms: number) => void
  readonly #seen = new Map<S, Seen>()
  #timer: Timer | undefined

  /** `silent` is called once for each worker that gives no sign of life for `ms`. */
  constructor(
    clock: Clock,
    workers: readonly S[],
    silent: (worker: S, ms: number) => void,
  ) {
    this.#clock = clock
    this.#workers = workers
    this.#silent = silent
  }

  start(): void {
    this.#timer = this.#clock.setTimeout(() => {
      for (const worker of this.#workers) this.#look(worker)
      this.start()
    }, lookMs)
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
  }

  #look(worker: S): void {
    const seen = this.#seen.get(worker)
    if (!worker.isTaken || seen === undefined || !isSame(seen, worker)) {
      const { signs, isReady, restarts } = worker
      const { beats } = signs
      this.#seen.set(worker, { beats, isReady, restarts, silent: 0, isTold: false })
      return
    }
    seen.silent += 1
    const most = worker.isReady ? mostSilent : mostSilentAtStart
    if (seen.isTold || seen.silent < most) return
    seen.isTold = true
    this.#silent(worker, most * lookMs)
  }
}

const isSame = (seen: Seen, { signs, isReady, restarts }: WatchedWorker): boolean =>
  seen.beats === signs.beats && seen.isReady === isReady && seen.restarts === restarts
