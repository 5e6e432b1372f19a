import type { Clock, Timer } from '../../util/clock.ts'

/** How long an endpoint may take for its first byte after the client's first. */
export class AnswerTimer {
  readonly #clock: Clock
  readonly #late: () => void
  #timer: Timer | undefined

  /** `late` is called when the time of `start` is over. */
  constructor(clock: Clock, late: () => void) {
    this.#clock = clock
    this.#late = late
  }

  /** In milliseconds; undefined: it may take any time. Does nothing while it is running. */
  start(ms: number | undefined): void {
    if (ms !== undefined) this.#timer ??= this.#clock.setTimeout(this.#late, ms)
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
