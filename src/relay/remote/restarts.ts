import { Backoff } from '../../util/backoff.ts'
import type { Clock, Timer } from '../../util/clock.ts'

/** Milliseconds that one must have lived for its death not to count as one in a row. */
const earlyMs = 10_000
const firstPauseMs = 250

/**
 * Starts another one of what died: at once the first time, then after 250 ms, 500 ms and so on,
 * while each dies within 10 s.
 */
export class Restarts {
  readonly #clock: Clock
  readonly #start: () => void
  readonly #backoff: Backoff
  #isEarly = false
  #timer: Timer | undefined

  /** `random`: 0 <= n < 1, for pauses from a half on; without it they are full. */
  constructor(
    clock: Clock,
    longestMs: number,
    start: () => void,
    random: () => number = () => 1,
  ) {
    this.#clock = clock
    this.#start = start
    const firstMs = firstPauseMs / 2
    this.#backoff = new Backoff({ firstMs, mostMs: longestMs / 2, random })
  }

  /** Milliseconds until the next one is to be started, after one that lived for `livedMs`. */
  pauseAfter(livedMs: number): number {
    const wasEarly = this.#isEarly
    this.#isEarly = livedMs < earlyMs
    if (wasEarly && this.#isEarly) return this.#backoff.next()
    this.#backoff.reset()
    return 0
  }

  startIn(ms: number): void {
    this.#timer = this.#clock.setTimeout(this.#start, ms)
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
  }
}
