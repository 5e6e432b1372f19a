import type { Clock, Timer } from '../../util/clock.ts'

/** Calls `expired` once when `touch` has not been called for so long. Cheap to touch. */
export class Watchdog {
  readonly #clock: Clock
  readonly #ms: number
  readonly #expired: () => void
  #touchedAt: number
  #timer: Timer

  constructor(clock: Clock, ms: number, expired: () => void) {
    this.#clock = clock
    this.#ms = ms
    this.#expired = expired
    this.#touchedAt = clock.now()
    this.#timer = clock.setTimeout(() => this.#look(), ms)
  }

  touch(): void {
    this.#touchedAt = this.#clock.now()
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
  }

  #look(): void {
    const left = this.#touchedAt + this.#ms - this.#clock.now()
    if (left <= 0) this.#expired()
    else this.#timer = this.#clock.setTimeout(() => this.#look(), left)
  }
}
