import type { Clock, Timer } from '../../util/clock.ts'

/** One edit is several events: what comes within this time is one change. */
const quietMs = 50
/** A file that is written to all the time is still read now and then. */
const longestMs = 1000

/** Calls `run` once after a burst of `poke`s. */
export class Debounce {
  readonly #clock: Clock
  readonly #run: () => void
  #timer: Timer | undefined
  #since = 0

  constructor(clock: Clock, run: () => void) {
    this.#clock = clock
    this.#run = run
  }

  poke(): void {
    const now = this.#clock.now()
    if (this.#timer === undefined) this.#since = now
    else this.#clock.clearTimeout(this.#timer)
    const ms = Math.max(0, Math.min(quietMs, this.#since + longestMs - now))
    this.#timer = this.#clock.setTimeout(() => {
      this.#timer = undefined
      this.#run()
    }, ms)
  }

  cancel(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
