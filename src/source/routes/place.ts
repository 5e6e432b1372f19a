import { type Resolve, withUnknown } from './resolver.ts'

/** Where connections to a name may go. */
export interface Place {
  readonly address: string
  /** 0: the backend says it. */
  readonly port: number
  /** 0 comes first. */
  readonly tier: number
  /** Its share of the connections, beside others of its tier: 1 unless an SRV record says otherwise. */
  readonly weight: number
}

export interface FoundPlaces {
  readonly places: readonly Place[]
  /** How long they hold, in milliseconds; undefined when unknown. */
  readonly ttlMs: number | undefined
  /** What could not be found out, in words, although there are places. */
  readonly faults: readonly string[]
}

/** How often to look again where it is not known how long an answer holds. */
export const unknownTtlMs = 30_000

/** More than any name has; a resolver that gives more is broken or hostile. */
export const mostPlaces = 256

/** Finds what a name stands for; rejects when there is nothing, or that can't be found out. */
export type Lookup = (signal: AbortSignal) => Promise<FoundPlaces>

export const placeAt = (address: string, port: number): Place => ({
  address,
  port,
  tier: 0,
  weight: 1,
})

/** By a host's addresses. */
export const hostLookup = (host: string, resolve: Resolve): Lookup => {
  let last: readonly string[] = []
  return async signal => {
    const found = await resolve(host, signal)
    last = withUnknown(found, last)
    const { ttlMs, faults = [] } = found
    return { places: last.map(address => placeAt(address, 0)), ttlMs, faults }
  }
}
