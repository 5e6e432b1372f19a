/** A watch that was cut sooner says nothing of a limit. */
export const steadyMs = 5000

/**
 * What is learnt of balancers and proxies before the API server that close watches: two in a row of
 * one collection that were cut after the same time. Watches end by themselves before it from then on.
 */
export class IdleLimit {
  readonly #learnt: (limitMs: number) => void
  readonly #lastMs = new Map<string, number>()
  #limitMs = Infinity

  /** `learnt` is called with each limit, in milliseconds, that is lower than those before. */
  constructor(learnt: (limitMs: number) => void) {
    this.#learnt = learnt
  }

  /** A watch of this collection was cut that had stood for so long. */
  cut(resource: string, ms: number): void {
    const last = this.#lastMs.get(resource) ?? Infinity
    this.#lastMs.set(resource, ms)
    if (ms < steadyMs || Math.abs(ms - last) > Math.max(1000, ms / 10)) return
    if (Math.min(ms, last) >= this.#limitMs) return
    this.#limitMs = Math.min(ms, last)
    this.#learnt(this.#limitMs)
  }

  /** For how many seconds a watch is asked for: five to ten minutes where nothing is known. */
  timeoutSeconds(random: number): number {
    return Math.floor(
      Math.min(300 + random * 301, (this.#limitMs / 1000) * (0.6 + 0.25 * random)),
    )
  }
}
