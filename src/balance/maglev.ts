import { isDeepStrictEqual } from 'node:util'
import { hashText } from './hash-text.ts'
import { type IsPassedOver, Pool, type Tiered, tierOf } from './pool.ts'

/** Prime, and so large that no more than 1 % of clients move which need not (section 5.3 of the paper). */
export const maglevSlots = 65_537

const [offsetSeed, skipSeed, clientSeed] = [1, 2, 3]

/**
 * Each client has an endpoint by its address alone: the same on every node and after a restart,
 * without any state, and another one for few clients beyond those whose endpoint has gone
 * (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
 * section 3.4). A client whose endpoint is passed over has another that is as much its own.
 */
export class Maglev<E extends Tiered> extends Pool<E> {
  /** By tier; made at the first turn after a change. */
  #tables: ReadonlyMap<number, Uint16Array> | undefined
  #listed: readonly Tiered[] = []

  /** By their keys: lists of other proxies may have another order. */
  protected override ordered(incoming: ReadonlyMap<string, E>): readonly E[] {
    return [...incoming.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1))
  }

  protected override changed(): void {
    // Plain copies: endpoints are the same objects when their weights are others.
    const listed = this.all.map(({ key, tier, weight }) => ({ key, tier, weight }))
    if (isDeepStrictEqual(listed, this.#listed)) return
    this.#listed = listed
    this.#tables = undefined
  }

  protected override nextOf(
    isOut: IsPassedOver<E>,
    client: string,
    tier?: number,
  ): E | undefined {
    const { all } = this
    const table = this.#table(tier ?? this.tiers[0] ?? 0)
    if (table === undefined) return undefined
    const hash = hashText(client, clientSeed)
    // Clients of one endpoint go on to different ones.
    const step = 1 + (hashText(client, skipSeed) % (maglevSlots - 1))
    let slot = hash % maglevSlots
    for (let passed = 0; passed < mostSteps; passed += 1) {
      const endpoint = all[table[slot] ?? 0]
      if (endpoint && !isOut(endpoint)) return endpoint
      slot = (slot + step) % maglevSlots
    }
    return all.find(one => !isOut(one))
  }

  /** It has no turns: each client its own. */
  protected override candidatesOf(
    isOut: IsPassedOver<E>,
    client: string,
    tier?: number,
  ): readonly E[] {
    const endpoint = this.nextOf(isOut, client, tier)
    return endpoint === undefined ? [] : [endpoint]
  }

  #table(tier: number): Uint16Array | undefined {
    this.#tables ??= new Map(this.tiers.map(one => [one, this.#fill(one)]))
    return this.#tables.get(tier)
  }

  #fill(tier: number): Uint16Array {
    const isAlone = this.tiers.length === 1
    const places = this.all.flatMap((one, index) => {
      const { key, weight = 1 } = one
      return isAlone || tierOf(one) === tier ? [{ index, key, weight }] : []
    })
    return maglevTable(places)
  }
}

/** So many slots of one client in a row are, but by a rare chance, of all endpoints that there are. */
const mostSteps = 256

interface Place {
  /** What stands in its slots; below 65 536. */
  readonly index: number
  readonly key: string
  readonly weight: number
}

/**
 * Which endpoint each slot has. Each has an order of the slots of its own, and they take turns, as
 * many as their weight is of the heaviest, in taking the next free slot of it. Those of weight 0
 * have none while there are others.
 */
export const maglevTable = (places: readonly Place[]): Uint16Array => {
  const table = new Uint16Array(maglevSlots)
  const heaviest = Math.max(0, ...places.map(({ weight }) => weight))
  const claimants = places
    .filter(({ weight }) => weight > 0 || heaviest === 0)
    .map(({ index, key, weight }) => ({
      index,
      share: heaviest === 0 ? 1 : weight / heaviest,
      due: 0,
      slot: hashText(key, offsetSeed) % maglevSlots,
      skip: 1 + (hashText(key, skipSeed) % (maglevSlots - 1)),
    }))
  const taken = new Uint8Array(maglevSlots)
  let free = claimants.length === 0 ? 0 : maglevSlots
  while (free > 0) {
    for (const claimant of claimants) {
      claimant.due += claimant.share
      if (claimant.due < 1 || free === 0) continue
      claimant.due -= 1
      while (taken[claimant.slot] === 1)
        claimant.slot = (claimant.slot + claimant.skip) % maglevSlots
      taken[claimant.slot] = 1
      table[claimant.slot] = claimant.index
      free -= 1
    }
  }
  return table
}
