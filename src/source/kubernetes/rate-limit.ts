import type { Clock } from '../../util/clock.ts'
import { reasonOf, wait } from './wait.ts'

const defaultQps = 5
const defaultBurst = 10

/**
 * A token bucket for requests, with client-go's reading of `clientConnection`: 0 stands
 * for the default (5 a second, 10 in a row), a negative qps for no limit.
 */
export class RateLimit {
  readonly #clock: Clock
  readonly #qps: number
  readonly #burst: number
  #tokens: number
  #filledAt: number

  constructor(clock: Clock, qps = 0, burst = 0) {
    this.#clock = clock
    this.#qps = qps < 0 ? Infinity : qps || defaultQps
    this.#burst = burst > 0 ? burst : defaultBurst
    this.#tokens = this.#burst
    this.#filledAt = clock.now()
  }

  /** Resolves when it is one's turn, first come first served; rejects when aborted. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#qps !== Infinity) {
      this.#fill()
      // Below zero are those who wait: each has its token reserved.
      this.#tokens -= 1
      if (this.#tokens < 0)
        await wait(this.#clock, (-this.#tokens / this.#qps) * 1000, signal)
      if (signal.aborted) this.#tokens += 1
    }
    if (signal.aborted) throw reasonOf(signal)
  }

  #fill(): void {
    const now = this.#clock.now()
    const earned = ((now - this.#filledAt) / 1000) * this.#qps
    this.#tokens = Math.min(this.#burst, this.#tokens + earned)
    this.#filledAt = now
  }
}
