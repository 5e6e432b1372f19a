/**
 * Endpoints that failed a moment ago and are left out while there are others, so that not
 * every connection has to find out anew. Each is tried again when its rest is over, by one
 * connection at a time until one gets through.
 */
export class Resting {
  readonly #until = new Map<string, number>()

  get size(): number {
    return this.#until.size
  }

  /** `restMs` from `now` on it is passed over. */
  failed(key: string, now: number, restMs: number): void {
    this.#until.set(key, now + restMs)
  }

  succeeded(key: string): void {
    this.#until.delete(key)
  }

  isResting(key: string, now: number): boolean {
    return (this.#until.get(key) ?? 0) > now
  }

  /** It is being tried: others wait `probeMs` for what comes of it. */
  picked(key: string, now: number, probeMs: number): void {
    if (this.#until.has(key)) this.#until.set(key, now + probeMs)
  }

  /** Forgets endpoints that are no longer listed. */
  retain(listed: { has(key: string): boolean }): void {
    for (const key of this.#until.keys()) if (!listed.has(key)) this.#until.delete(key)
  }
}
