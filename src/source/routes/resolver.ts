import { familyOf, type IpFamily } from '../../util/ip.ts'
import type { SrvData } from './dns/dns-message.ts'

export interface Resolved {
  readonly addresses: readonly string[]
  /** How long the answer holds, in milliseconds; undefined when unknown. */
  readonly ttlMs: number | undefined
  /** What could not be found out, in words, although there are addresses. */
  readonly faults?: readonly string[]
  /** Whether there are any of this family could not be found out. */
  readonly unknown?: IpFamily | undefined
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

export interface ResolvedSrv {
  readonly records: readonly SrvData[]
  readonly ttlMs: number
  /** As of `Resolved`. */
  readonly faults?: readonly string[]
}

/** Finds a service's SRV records; rejects as `Resolve` does. */
export type ResolveSrv = (name: string, signal: AbortSignal) => Promise<ResolvedSrv>
