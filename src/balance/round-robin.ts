import { type May, Pool, type Tiered } from './pool.ts'
import { Shares } from './shares.ts'

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

  protected override nextOf(may: May<E>): E | undefined {
    const index = this.#choose(this.#shares, may)
    return index === undefined ? undefined : this.#turnOf(index)
  }

  protected override candidatesOf(may: May<E>): readonly E[] {
    const index = this.#choose(this.#shares?.copy(), may)
    const endpoint = index === undefined ? undefined : this.all[index]
    return endpoint === undefined ? [] : [endpoint]
  }

  /** Whose turn it is, by index; of `shares` it takes the turn. */
  #choose(shares: Shares | undefined, may: May<E>): number | undefined {
    const { all: ring } = this
    const open = shares && ([] as number[])
    for (let passed = 0; passed < ring.length; passed++) {
      const index = (this.#next + passed) % ring.length
      const endpoint = ring[index]
      if (endpoint === undefined || !may(endpoint)) continue
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
