import { type IsPassedOver, Pool, type Tiered } from './pool.ts'

/**
 * Endpoints in a ring, taken in turn. Those that stay keep their order and the ring its
 * position across updates; newcomers go to the end. A ring of nothing but newcomers
 * starts at a random place, so that many proxies started together do not all send
 * their first connections to the same endpoint.
 *
 * Where weights differ an endpoint of weight 2 has two turns while one of weight 1 has one, spread
 * as evenly as they can be (smooth weighted round robin).
 */
export class RoundRobin<E extends Tiered> extends Pool<E> {
  readonly #random: () => number
  readonly #weightOf: ((endpoint: E) => number) | undefined
  #next = 0
  /** Undefined where all weights are the same. */
  #shares: Shares | undefined

  /**
   * `random` is uniform in [0, 1), as Math.random is. `weightOf`: what counts in place of the
   * weights that endpoints have, as it is at each turn.
   */
  constructor(random: () => number, weightOf?: (endpoint: E) => number) {
    super()
    this.#random = random
    this.#weightOf = weightOf
  }

  protected override ordered(
    incoming: ReadonlyMap<string, E>,
    known: ReadonlyMap<string, E>,
  ): readonly E[] {
    const ring: E[] = []
    let stayedBefore = 0
    for (const [index, { key }] of this.all.entries()) {
      const stayed = incoming.get(key)
      if (stayed === undefined) continue
      if (index < this.#next) stayedBefore++
      ring.push(stayed)
    }
    const stayed = ring.length
    for (const [key, endpoint] of incoming) {
      if (!known.has(key)) ring.push(endpoint)
    }
    this.#next =
      stayed === 0 ? Math.floor(this.#random() * ring.length) : stayedBefore % stayed
    return ring
  }

  protected override changed(before: readonly E[], stayed: number): void {
    const varies = this.#weightOf !== undefined
    this.#shares = Shares.of(this.all, before, this.#shares, varies)
    if (stayed === 0 && this.#shares !== undefined) this.#skipAhead(this.#shares)
  }

  protected override nextOf(isOut: IsPassedOver<E>): E | undefined {
    const index = this.#choose(this.#shares, isOut)
    return index === undefined ? undefined : this.#turnOf(index)
  }

  protected override candidatesOf(isOut: IsPassedOver<E>): readonly E[] {
    const index = this.#choose(this.#shares?.copy(), isOut)
    const endpoint = index === undefined ? undefined : this.all[index]
    return endpoint === undefined ? [] : [endpoint]
  }

  /** Whose turn it is, by index; of `shares` it takes the turn. */
  #choose(shares: Shares | undefined, isOut: IsPassedOver<E>): number | undefined {
    const { all: ring } = this
    const open = shares && ([] as number[])
    for (let passed = 0; passed < ring.length; passed++) {
      const index = (this.#next + passed) % ring.length
      const endpoint = ring[index]
      if (endpoint === undefined || isOut(endpoint)) continue
      if (open === undefined) return index
      open.push(index)
    }
    if (open === undefined || shares === undefined) return undefined
    if (this.#weightOf !== undefined) shares.weigh(ring, open, this.#weightOf)
    return shares.take(open)
  }

  #turnOf(index: number): E | undefined {
    this.#next = (index + 1) % this.size
    return this.all[index]
  }

  /** To a random turn: the first one would be that of the heaviest for all proxies. */
  #skipAhead({ total }: Shares): void {
    const turns = Math.floor(this.#random() * Math.min(total, mostSkipped))
    for (let turn = 0; turn < turns; turn++) this.next()
  }
}

/** Of a round that may have millions: enough for each share to begin with its own chance. */
const mostSkipped = 256

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
class Shares {
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
