import { familyOf, type IpFamily } from '../../util/ip.ts'
import type { SrvData } from './dns/dns-message.ts'

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
  /** The answer was cut off: those from before that it has not may be in the rest. */
  readonly isPart?: boolean | undefined
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
    const { ttlMs, faults = [], isPart } = found
    return { places: last.map(address => placeAt(address, 0)), ttlMs, faults, isPart }
  }
}

export interface Resolved {
  readonly addresses: readonly string[]
  /** How long the answer holds, in milliseconds; undefined when unknown. */
  readonly ttlMs: number | undefined
  /** What could not be found out, in words, although there are addresses. */
  readonly faults?: readonly string[]
  /** Whether there are any of this family could not be found out. */
  readonly unknown?: IpFamily | undefined
  readonly isPart?: boolean
}

/** With those of `last` of which it could not be found out whether they still are the host's. */
export const withUnknown = (
  { addresses, unknown }: Resolved,
  last: readonly string[],
): readonly string[] =>
  unknown === undefined
    ? addresses
    : [...addresses, ...last.filter(address => familyOf(address) === unknown)]

/** Finds a host's addresses; rejects when it has none, or that can't be found out. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<Resolved>

interface ResolvedSrv {
  readonly records: readonly SrvData[]
  readonly ttlMs: number
  /** As of `Resolved`. */
  readonly faults?: readonly string[]
  readonly isPart?: boolean
}

/** Finds a service's SRV records; rejects as `Resolve` does. */
export type ResolveSrv = (name: string, signal: AbortSignal) => Promise<ResolvedSrv>
