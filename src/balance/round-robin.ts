/** An endpoint, told apart by its key. Those of a higher tier are for when the lower ones fail. */
export interface Tiered {
  readonly key: string
  /** 0 when it is not said. */
  readonly tier?: number | undefined
}

/**
 * Endpoints in a ring, taken in turn. Those that stay keep their order and the ring its
 * position across updates; newcomers go to the end. A ring of nothing but newcomers
 * starts at a random place, so that many proxies started together do not all send
 * their first connections to the same endpoint.
 */
export class RoundRobin<E extends Tiered> {
  readonly #random: () => number
  #byKey: ReadonlyMap<string, E> = new Map()
  #ring: readonly E[] = []
  #next = 0
  #tiers: readonly number[] = oneTier

  /** `random` is uniform in [0, 1), as Math.random is. */
  constructor(random: () => number) {
    this.#random = random
  }

  get size(): number {
    return this.#ring.length
  }

  /** In the order of their turns. */
  get all(): readonly E[] {
    return this.#ring
  }

  /** In the order in which they are to be used; one, whatever its number, means all. */
  get tiers(): readonly number[] {
    return this.#tiers
  }

  get(key: string): E | undefined {
    return this.#byKey.get(key)
  }

  /** Of several endpoints with one key the first counts. True when one went. O(n). */
  setEndpoints(list: readonly E[]): boolean {
    const before = this.#ring.length
    const incoming = new Map<string, E>()
    for (const endpoint of list) {
      if (!incoming.has(endpoint.key)) incoming.set(endpoint.key, endpoint)
    }
    const ring: E[] = []
    let stayedBefore = 0
    for (const [index, { key }] of this.#ring.entries()) {
      const stayed = incoming.get(key)
      if (stayed === undefined) continue
      if (index < this.#next) stayedBefore++
      ring.push(stayed)
    }
    const stayed = ring.length
    for (const [key, endpoint] of incoming) {
      if (!this.#byKey.has(key)) ring.push(endpoint)
    }
    this.#next =
      stayed === 0 ? Math.floor(this.#random() * ring.length) : stayedBefore % stayed
    this.#byKey = incoming
    this.#ring = ring
    this.#tiers = tiersOf(ring)
    return stayed < before
  }

  /**
   * The next endpoint of the lowest tier whose key is not in `skip`, undefined when there is
   * none. Only an endpoint that is returned has had its turn.
   */
  next(skip?: Pick<ReadonlySet<string>, 'has'>): E | undefined {
    if (this.#tiers.length === 1) return this.#nextOf(skip, undefined)
    for (const tier of this.#tiers) {
      const endpoint = this.#nextOf(skip, tier)
      if (endpoint !== undefined) return endpoint
    }
    return undefined
  }

  /** `tier` undefined: of any. */
  #nextOf(
    skip: Pick<ReadonlySet<string>, 'has'> | undefined,
    tier: number | undefined,
  ): E | undefined {
    const { length } = this.#ring
    for (let passed = 0; passed < length; passed++) {
      const index = (this.#next + passed) % length
      const endpoint = this.#ring[index]
      if (endpoint === undefined || skip?.has(endpoint.key)) continue
      if (tier !== undefined && tierOf(endpoint) !== tier) continue
      this.#next = (index + 1) % length
      return endpoint
    }
    return undefined
  }
}

export const tierOf = ({ tier = 0 }: Tiered): number => tier

const oneTier: readonly number[] = [0]

const tiersOf = (ring: readonly Tiered[]): readonly number[] => {
  if (ring.every(({ tier }) => tier === undefined)) return oneTier
  return [...new Set(ring.map(tierOf))].toSorted((a, b) => a - b)
}
