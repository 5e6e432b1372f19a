/** One that has a weight: 1 when it is not said. */
interface Weighted {
  readonly key: string
  readonly weight?: number | undefined
}

/** Less than any difference between two shares, and more than what sums of fractions are off by. */
const noise = 1e-9

/**
 * Whose turn it is where weights differ. Each endpoint has a credit, in turns. At each turn the
 * credits of all that could have it grow by their weights, divided by the sum of those weights; the
 * one with the highest credit has the turn, and one is taken off its credit. Endpoints that are
 * passed over keep theirs, so that they come back to their share and not to all that they have missed.
 */
export class Shares {
  readonly #weights: Float64Array
  readonly #credits: Float64Array

  private constructor(weights: Float64Array) {
    this.#weights = weights
    this.#credits = new Float64Array(weights.length)
  }

  /**
   * Those of `ring`, by index; undefined where all weights are the same and none of them `varies`.
   * Those that were in the ring `before` keep the credit that they have.
   */
  static of(
    ring: readonly Weighted[],
    before: readonly Weighted[],
    last: Shares | undefined,
    varies = false,
  ): Shares | undefined {
    const first = ring[0]?.weight ?? 1
    if (!varies && ring.every(({ weight = 1 }) => weight === first)) return undefined
    const shares = new Shares(Float64Array.from(ring, ({ weight = 1 }) => weight))
    if (last === undefined) return shares
    const credits = new Map(before.map(({ key }, i) => [key, last.#credits[i] ?? 0]))
    for (const [i, { key }] of ring.entries()) shares.#credits[i] = credits.get(key) ?? 0
    return shares
  }

  /** In the same state, and apart from now on. */
  copy(): Shares {
    const copy = new Shares(this.#weights.slice())
    copy.#credits.set(this.#credits)
    return copy
  }

  /** How many turns a round has, if all weights are whole. */
  get total(): number {
    return this.#weights.reduce((sum, weight) => sum + weight, 0)
  }

  /** From now on these have the weights that `weightOf` gives. */
  weigh<E>(
    ring: readonly E[],
    open: readonly number[],
    weightOf: (one: E) => number,
  ): void {
    for (const index of open) {
      const endpoint = ring[index]
      if (endpoint !== undefined) this.#weights[index] = weightOf(endpoint)
    }
  }

  /**
   * Which of these has the turn, by index; undefined when there are none. Of two that are level,
   * the first; and so of those of weight 0 when there are no others.
   */
  take(open: readonly number[]): number | undefined {
    const weights = this.#weights
    const credits = this.#credits
    let total = 0
    for (const index of open) total += weights[index] ?? 0
    if (total === 0) return open[0]
    let chosen: number | undefined
    let most = -Infinity
    for (const index of open) {
      const weight = weights[index] ?? 0
      if (weight === 0) continue
      const credit = (credits[index] ?? 0) + weight / total
      credits[index] = credit
      if (credit <= most + noise) continue
      most = credit
      chosen = index
    }
    if (chosen !== undefined) credits[chosen] = most - 1
    return chosen
  }
}
