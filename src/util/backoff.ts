export interface BackoffOptions {
  /** Milliseconds of the first wait. */
  readonly firstMs: number
  /** Milliseconds of the longest, without jitter. */
  readonly mostMs: number
  /**
   * As Math.random: each wait is that much longer, up to twice as long, so that clients
   * that lost the same server don't come back at the same time. None: no jitter.
   */
  readonly random?: () => number
}

/** Waits that double, up to a longest one. */
export class Backoff {
  readonly #options: BackoffOptions
  #ms: number

  constructor(options: BackoffOptions) {
    this.#options = options
    this.#ms = options.firstMs
  }

  /** Milliseconds to wait before the next attempt; `leastMs` for faults that take longer to mend. */
  next(leastMs = 0): number {
    const { mostMs, random = () => 0 } = this.#options
    const ms = Math.min(mostMs, Math.max(this.#ms, leastMs))
    this.#ms = Math.min(mostMs, ms * 2)
    return ms * (1 + random())
  }

  /** A tenth of the first wait up to all of it: where nothing is to mend, but all clients ask. */
  least(): number {
    const { firstMs, random = () => 0 } = this.#options
    return firstMs * (0.1 + 0.9 * random())
  }

  reset(): void {
    this.#ms = this.#options.firstMs
  }
}
