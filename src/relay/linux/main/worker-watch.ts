import type { Clock, Timer } from '../../../util/clock.ts'
import type { WorkerSeat } from './worker-seat.ts'

/** Of a worker's seat, what is watched. */
export type WatchedSeat = Pick<WorkerSeat, 'signs' | 'isTaken' | 'isReady' | 'restarts'>

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
 * process is stopped, or gets no CPU, nobody looks.
 */
export class WorkerWatch<S extends WatchedSeat = WorkerSeat> {
  readonly #clock: Clock
  readonly #seats: readonly S[]
  readonly #silent: (seat: S, ms: number) => void
  readonly #seen = new Map<S, Seen>()
  #timer: Timer | undefined

  /** `silent` is called once for each worker that gives no sign of life for `ms`. */
  constructor(clock: Clock, seats: readonly S[], silent: (seat: S, ms: number) => void) {
    this.#clock = clock
    this.#seats = seats
    this.#silent = silent
  }

  start(): void {
    this.#timer = this.#clock.setTimeout(() => {
      for (const seat of this.#seats) this.#look(seat)
      this.start()
    }, lookMs)
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
  }

  #look(seat: S): void {
    const seen = this.#seen.get(seat)
    if (!seat.isTaken || seen === undefined || !isSame(seen, seat)) {
      const { signs, isReady, restarts } = seat
      const { beats } = signs
      this.#seen.set(seat, { beats, isReady, restarts, silent: 0, isTold: false })
      return
    }
    seen.silent += 1
    const most = seat.isReady ? mostSilent : mostSilentAtStart
    if (seen.isTold || seen.silent < most) return
    seen.isTold = true
    this.#silent(seat, most * lookMs)
  }
}

const isSame = (seen: Seen, { signs, isReady, restarts }: WatchedSeat): boolean =>
  seen.beats === signs.beats && seen.isReady === isReady && seen.restarts === restarts
