interface Rest {
  /** Until then it is passed over. */
  until: number
  /** Until then one connection is finding out how it is. */
  probedUntil: number
  /** In a row, those that came while it rested apart. */
  failures: number
}

/**
 * Endpoints that failed a moment ago and are left out while there are others, so that not
 * every connection has to find out anew. Each is tried again when its rest is over, by one
 * connection at a time until one gets through; the rest doubles with each that does not.
 */
export class Resting {
  readonly #rests = new Map<string, Rest>()
  /** The longest rest in milliseconds; 0: none is longer than the first. */
  longestMs = 0

  get size(): number {
    return this.#rests.size
  }

  /** `restMs` from `now` on it is passed over, longer if it has failed before. */
  failed(key: string, now: number, restMs: number): void {
    const rest = this.#rests.get(key)
    if (rest === undefined) {
      this.#rests.set(key, { until: now + restMs, probedUntil: 0, failures: 1 })
    } else if (rest.until > now) {
      // Of the same trouble: many connections may be under way when it begins.
      rest.until = Math.max(rest.until, now + restMs)
    } else {
      const longer = Math.min(restMs * 2 ** rest.failures, this.longestMs)
      rest.until = now + Math.max(restMs, longer)
      rest.failures += 1
    }
  }

  succeeded(key: string): void {
    this.#rests.delete(key)
  }

  isResting(key: string, now: number): boolean {
    const rest = this.#rests.get(key)
    return rest !== undefined && (rest.until > now || rest.probedUntil > now)
  }

  /** Monotonic milliseconds; 0 when it does not rest. */
  until(key: string): number {
    return this.#rests.get(key)?.until ?? 0
  }

  /** It is being tried: others wait `probeMs` for what comes of it. */
  picked(key: string, now: number, probeMs: number): void {
    const rest = this.#rests.get(key)
    if (rest !== undefined) rest.probedUntil = now + probeMs
  }

  /** Forgets endpoints that are no longer listed. */
  retain(listed: { has(key: string): boolean }): void {
    for (const key of this.#rests.keys()) if (!listed.has(key)) this.#rests.delete(key)
  }
}
