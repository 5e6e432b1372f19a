import { Shares } from './shares.ts'

/** Keys of endpoints. */
export type KeySet = Pick<ReadonlySet<string>, 'has'>

/** An endpoint, told apart by its key. Those of a higher tier are for when the lower ones fail. */
export interface Tiered {
  readonly key: string
  /** 0 when it is not said. */
  readonly tier?: number | undefined
  /** Its share of the turns, beside others of its tier; not negative, 1 when it is not said. */
  readonly weight?: number | undefined
}

/**
 * Endpoints in a ring, taken in turn. Those that stay keep their order and the ring its
 * position across updates; newcomers go to the end. A ring of nothing but newcomers
 * starts at a random place, so that many proxies started together do not all send
 * their first connections to the same endpoint.
 *
 * Where weights differ an endpoint of weight 2 has two turns while one of weight 1 has one, spread
 * as evenly as they can be (smooth weighted round robin). One of weight 0 has a turn when all others
 * are passed over.
 */
export class RoundRobin<E extends Tiered> {
  readonly #random: () => number
  #byKey: ReadonlyMap<string, E> = new Map()
  #ring: readonly E[] = []
  #next = 0
  #tiers: readonly number[] = oneTier
  /** Undefined where all weights are the same. */
  #shares: Shares | undefined

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

  /**
   * Of several endpoints with one key the first counts; weights are those of now. True when one
   * went. O(n).
   */
  setEndpoints(list: readonly E[]): boolean {
    const before = this.#ring
    const incoming = new Map<string, E>()
    for (const endpoint of list) {
      if (!incoming.has(endpoint.key)) incoming.set(endpoint.key, endpoint)
    }
    const ring: E[] = []
    let stayedBefore = 0
    for (const [index, { key }] of before.entries()) {
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
    this.#shares = Shares.of(ring, before, this.#shares)
    if (stayed === 0 && this.#shares !== undefined) this.#skipAhead(this.#shares)
    return stayed < before.length
  }

  /**
   * The next endpoint of the lowest tier whose key is not in `skip` and that does not rest,
   * undefined when there is none. Only an endpoint that is returned has had its turn.
   */
  next(skip?: KeySet, rests?: (endpoint: E) => boolean): E | undefined {
    if (this.#tiers.length === 1) return this.#nextOf(undefined, skip, rests)
    for (const tier of this.#tiers) {
      const endpoint = this.#nextOf(tier, skip, rests)
      if (endpoint !== undefined) return endpoint
    }
    return undefined
  }

  /** `tier` undefined: of any. */
  #nextOf(
    tier: number | undefined,
    skip: KeySet | undefined,
    rests: ((endpoint: E) => boolean) | undefined,
  ): E | undefined {
    const { length } = this.#ring
    const shares = this.#shares
    const open = shares && ([] as number[])
    for (let passed = 0; passed < length; passed++) {
      const index = (this.#next + passed) % length
      const endpoint = this.#ring[index]
      if (endpoint === undefined || skip?.has(endpoint.key)) continue
      if (tier !== undefined && tierOf(endpoint) !== tier) continue
      if (rests?.(endpoint)) continue
      if (open === undefined) return this.#turnOf(index)
      open.push(index)
    }
    const index = open && shares?.take(open)
    return index === undefined ? undefined : this.#turnOf(index)
  }

  #turnOf(index: number): E | undefined {
    this.#next = (index + 1) % this.#ring.length
    return this.#ring[index]
  }

  /** To a random turn: the first one would be that of the heaviest for all proxies. */
  #skipAhead({ total }: Shares): void {
    const turns = Math.floor(this.#random() * Math.min(total, mostSkipped))
    for (let turn = 0; turn < turns; turn++) this.next()
  }
}

/** Of a round that may have millions: enough for each share to begin with its own chance. */
const mostSkipped = 256

export const tierOf = ({ tier = 0 }: Tiered): number => tier

const oneTier: readonly number[] = [0]

const tiersOf = (ring: readonly Tiered[]): readonly number[] => {
  if (ring.every(({ tier }) => tier === undefined)) return oneTier
  return [...new Set(ring.map(tierOf))].toSorted((a, b) => a - b)
}
