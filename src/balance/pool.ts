/** Keys of endpoints. */
export type KeySet = Pick<ReadonlySet<string>, 'has'>

export const noKeys: ReadonlySet<string> = new Set()

/** An endpoint, told apart by its key. Those of a higher tier are for when the lower ones fail. */
export interface Tiered {
  readonly key: string
  /** 0 when it is not said. */
  readonly tier?: number | undefined
  /** Its share of the connections, beside others of its tier; not negative, 1 when it is not said. */
  readonly weight?: number | undefined
}

/**
 * Endpoints that some clients may get, and whose turn it is: subclasses differ in that. An endpoint of
 * weight 0 has a turn when all others of its tier are passed over.
 */
export abstract class Pool<E extends Tiered> {
  #byKey: ReadonlyMap<string, E> = new Map()
  #list: readonly E[] = []
  #tiers: readonly number[] = oneTier

  get size(): number {
    return this.#list.length
  }

  get all(): readonly E[] {
    return this.#list
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
    const before = this.#list
    const incoming = new Map<string, E>()
    for (const endpoint of list) {
      if (!incoming.has(endpoint.key)) incoming.set(endpoint.key, endpoint)
    }
    const known = this.#byKey
    const stayed = before.reduce((sum, { key }) => sum + (incoming.has(key) ? 1 : 0), 0)
    this.#byKey = incoming
    const ordered = this.ordered(incoming, known)
    this.#list = ordered
    this.#tiers = tiersOf(ordered)
    this.changed(before, stayed)
    return stayed < before.length
  }

  /**
   * The next endpoint of the lowest tier whose key is not in `skip` and that is not passed over,
   * undefined when there is none. Only an endpoint that is returned has had its turn. `client`: who
   * it is for, where that counts.
   */
  next(skip?: KeySet, passesOver?: IsPassedOver<E>, client = ''): E | undefined {
    if (this.#tiers.length === 1)
      return this.nextOf(passedOver(undefined, skip, passesOver), client)
    for (const tier of this.#tiers) {
      const endpoint = this.nextOf(passedOver(tier, skip, passesOver), client, tier)
      if (endpoint !== undefined) return endpoint
    }
    return undefined
  }

  /**
   * Those of which `next` would give one now, by chance where there are several. Changes nothing: nobody
   * has had a turn.
   */
  candidates(skip?: KeySet, passesOver?: IsPassedOver<E>, client = ''): readonly E[] {
    const tiers = this.#tiers.length === 1 ? [undefined] : this.#tiers
    for (const tier of tiers) {
      const found = this.candidatesOf(passedOver(tier, skip, passesOver), client, tier)
      if (found.length > 0) return found
    }
    return []
  }

  /** The endpoints in the order in which they are kept; `known` are those of before. */
  protected abstract ordered(
    incoming: ReadonlyMap<string, E>,
    known: ReadonlyMap<string, E>,
  ): readonly E[]

  /** `all` is not what it was `before`; `stayed` of those are there still. */
  protected abstract changed(before: readonly E[], stayed: number): void

  /** `tier`: the one of those that are not out; undefined where there is but one. */
  protected abstract nextOf(
    isOut: IsPassedOver<E>,
    client: string,
    tier?: number,
  ): E | undefined

  /** As `candidates`, of a tier. */
  protected abstract candidatesOf(
    isOut: IsPassedOver<E>,
    client: string,
    tier?: number,
  ): readonly E[]
}

/** Whether an endpoint gets no turn. */
export type IsPassedOver<E> = (endpoint: E) => boolean

/** For most connections the very function that was given: one is not made for each. */
const passedOver = <E extends Tiered>(
  tier: number | undefined,
  skip: KeySet | undefined,
  passesOver: IsPassedOver<E> = nobody,
): IsPassedOver<E> => {
  if (skip === undefined && tier === undefined) return passesOver
  return endpoint =>
    skip?.has(endpoint.key) === true ||
    (tier !== undefined && tierOf(endpoint) !== tier) ||
    passesOver(endpoint)
}

const nobody = (): boolean => false

export const tierOf = ({ tier = 0 }: Tiered): number => tier

const oneTier: readonly number[] = [0]

const tiersOf = (list: readonly Tiered[]): readonly number[] => {
  if (list.every(({ tier }) => tier === undefined)) return oneTier
  return [...new Set(list.map(tierOf))].toSorted((a, b) => a - b)
}
