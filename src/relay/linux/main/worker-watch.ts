import type { Clock, Timer } from '../../../util/clock.ts'
import type { WorkerSeat } from './worker-seat.ts'

const lookMs = 250
/** Looks in a row without a sign of life: 1.5 s. A worker at rest gives two a second. */
const mostSilent = 6
/** A worker that is being started loads its program first: 30 s. */
const mostSilentAtStart = 120

interface Seen {
  beats: number
  silent: number
}

/**
 * Notices workers that spin, or sleep in a call. Looks are counted, not time: while the whole
 * process is stopped, or gets no CPU, nobody looks.
 */
export class WorkerWatch {
  readonly #clock: Clock
  readonly #seats: readonly WorkerSeat[]
  readonly #silent: (seat: WorkerSeat, ms: number) => void
  readonly #seen = new Map<WorkerSeat, Seen>()
  #timer: Timer | undefined

  /** `silent` is called once for each worker that gives no sign of life for `ms`. */
  constructor(
    clock: Clock,
    seats: readonly WorkerSeat[],
    silent: (seat: WorkerSeat, ms: number) => void,
  ) {
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

  #look(seat: WorkerSeat): void {
    const { beats } = seat.signs
    const seen = this.#seen.get(seat)
    if (!seat.isTaken || seen === undefined || seen.beats !== beats) {
      this.#seen.set(seat, { beats, silent: 0 })
      return
    }
    seen.silent += 1
    const most = seat.isReady ? mostSilent : mostSilentAtStart
    if (seen.silent === most) this.#silent(seat, most * lookMs)
  }
}
