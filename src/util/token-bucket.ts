import type { Clock } from './clock.ts'

/** A token bucket: `burst` tokens at once, after that one every `everyMs` milliseconds. */
export class TokenBucket {
  readonly #clock: Pick<Clock, 'now'>
  readonly #burst: number
  readonly #everyMs: number
  #tokens: number
  #filledAt: number

  /** Full at the start. `everyMs` 0: always full. */
  constructor(clock: Pick<Clock, 'now'>, burst: number, everyMs: number) {
    this.#clock = clock
    this.#burst = burst
    this.#everyMs = everyMs
    this.#tokens = burst
    this.#filledAt = clock.now()
  }

  /** Takes so many, also where there are none: then the count is below zero, and those are reserved. */
  take(count = 1): void {
    this.#fill()
    this.#tokens -= count
  }

  /** How many there are; below zero: are owed. */
  get tokens(): number {
    this.#fill()
    return this.#tokens
  }

  giveBack(): void {
    this.#tokens += 1
  }

  /** Milliseconds until there are `count` tokens; 0 when there are. */
  msUntil(count: number): number {
    this.#fill()
    return Math.max(0, (count - this.#tokens) * this.#everyMs)
  }

  get isFull(): boolean {
    return this.msUntil(this.#burst) === 0
  }

  #fill(): void {
    const now = this.#clock.now()
    const earned =
      this.#everyMs === 0 ? this.#burst : (now - this.#filledAt) / this.#everyMs
    this.#tokens = Math.min(this.#burst, this.#tokens + earned)
    this.#filledAt = now
  }
}
