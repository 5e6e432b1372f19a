import type { Resolve } from './resolver.ts'

/** Where connections to a name may go. */
export interface Place {
  readonly address: string
  /** 0: the backend says it. */
  readonly port: number
  /** 0 comes first. */
  readonly tier: number
  /** Of an SRV record. Turns are equal so far. */
  readonly weight: number
}

export interface FoundPlaces {
  readonly places: readonly Place[]
  /** How long they hold, in milliseconds; undefined when unknown. */
  readonly ttlMs: number | undefined
  /** What could not be found out, in words, although there are places. */
  readonly faults: readonly string[]
}

/** How often to look again where nobody says how long an answer holds. */
export const unknownTtlMs = 30_000

/** More than any name has; a resolver that gives more is broken or hostile. */
export const mostPlaces = 256

/** Finds what a name stands for; rejects when there is nothing, or that can't be found out. */
export type Lookup = (signal: AbortSignal) => Promise<FoundPlaces>

export const placeAt = (address: string, port: number): Place => ({
  address,
  port,
  tier: 0,
  weight: 0,
})

/** By a host's addresses. */
export const hostLookup =
  (host: string, resolve: Resolve): Lookup =>
  async signal => {
    const { addresses, ttlMs, faults = [] } = await resolve(host, signal)
    return { places: addresses.map(address => placeAt(address, 0)), ttlMs, faults }
  }
