const firstMs = 800
/** Half of the longest wait: the jitter adds as much again at most. */
const mostMs = 15_000

/**
 * Waits that double from 0.8 s to 15 s, each with jitter up to twice as long: a node
 * asks at least every 30 s, and nodes that lost the same server do not come back as one.
 */
export class Backoff {
  readonly #random: () => number
  #ms = firstMs

  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds to wait before the next attempt; `leastMs` for faults that take longer to mend. */
  next(leastMs = 0): number {
    const ms = Math.min(mostMs, Math.max(this.#ms, leastMs))
    this.#ms = Math.min(mostMs, ms * 2)
    return ms * (1 + this.#random())
  }

  /** A little something, in milliseconds, against all nodes coming back at once. */
  least(): number {
    return firstMs * (0.1 + 0.9 * this.#random())
  }

  reset(): void {
    this.#ms = firstMs
  }
}
