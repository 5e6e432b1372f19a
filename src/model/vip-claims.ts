import { claimsOf, compareClaims, type Claim } from './claim.ts'
import type { Service } from './service.ts'

/** A claim and the rival that has its VIP. */
export interface Loss {
  readonly claim: Claim
  readonly holder: Claim
}

/**
 * Who keeps each VIP: of all that claim it the one that compareClaims puts first,
 * whatever the order in which they came. A loser loses that one VIP and no more.
 */
export class VipClaims {
  readonly #byService = new Map<string, readonly Claim[]>()
  /** Never empty; the holder comes first, the others in no order. */
  readonly #claimants = new Map<string, Claim[]>()

  /** The claims of a Service that hold their VIP, in the order of claimsOf. */
  wonBy(service: string): readonly Claim[] {
    return this.#claimsOf(service).filter(claim => this.#holderOf(claim) === claim)
  }

  /** Its other claims, each with the one that holds the VIP. */
  lostBy(service: string): readonly Loss[] {
    return this.#claimsOf(service).flatMap(claim => {
      const holder = this.#holderOf(claim)
      return holder === undefined || holder === claim ? [] : { claim, holder }
    })
  }

  /**
   * Takes in Services by `namespace/name`, undefined for one that went, and decides anew
   * only the VIPs they claim or claimed. Returns every Service that won or lost a VIP by
   * it, or lost to another holder than before; the changed ones are always among them.
   */
  update(changed: ReadonlyMap<string, Service | undefined>): ReadonlySet<string> {
    const holders = new Map<string, Claim | undefined>()
    for (const service of changed.keys()) this.#withdraw(service, holders)
    for (const [key, service] of changed) {
      if (service !== undefined) this.#enter(key, service, holders)
    }
    const affected = new Set(changed.keys())
    for (const [key, before] of holders) {
      const claimants = this.#claimants.get(key)
      if (claimants === undefined) continue
      putHolderFirst(claimants)
      const [holder] = claimants
      if (before && holder && compareClaims(before, holder) === 0) continue
      for (const { service } of claimants) affected.add(serviceKey(service))
    }
    return affected
  }

  #claimsOf(service: string): readonly Claim[] {
    return this.#byService.get(service) ?? []
  }

  #holderOf(claim: Claim): Claim | undefined {
    return this.#claimants.get(claim.key)?.[0]
  }

  #withdraw(service: string, holders: Map<string, Claim | undefined>): void {
    for (const claim of this.#claimsOf(service)) {
      const claimants = this.#claimants.get(claim.key) ?? []
      if (!holders.has(claim.key)) holders.set(claim.key, claimants[0])
      claimants.splice(claimants.indexOf(claim), 1)
      if (claimants.length === 0) this.#claimants.delete(claim.key)
    }
    this.#byService.delete(service)
  }

  #enter(key: string, service: Service, holders: Map<string, Claim | undefined>): void {
    const claims = claimsOf(service)
    this.#byService.set(key, claims)
    for (const claim of claims) {
      const claimants = this.#claimants.get(claim.key)
      if (!holders.has(claim.key)) holders.set(claim.key, claimants?.[0])
      if (claimants === undefined) this.#claimants.set(claim.key, [claim])
      else claimants.push(claim)
    }
  }
}

const serviceKey = ({ namespace, name }: Service): string => `${namespace}/${name}`

const putHolderFirst = (claimants: Claim[]): void => {
  let first = 0
  for (const [index, claim] of claimants.entries()) {
    const best = claimants[first]
    if (best !== undefined && compareClaims(claim, best) < 0) first = index
  }
  if (first > 0) claimants.unshift(...claimants.splice(first, 1))
}
