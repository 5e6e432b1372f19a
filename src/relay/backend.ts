import type { EndpointStats, RelayEndpoint, RelayListener } from './relay.ts'

/**
 * An endpoint with what the relay knows of it. One object as long as it stays listed, or
 * keeps its flows.
 */
export interface Backend extends RelayEndpoint, EndpointStats {
  active: number
  failures: number
  resting: boolean
}

/** By key: the backends that are listed, or stay. */
type Known<B extends Backend> = Pick<ReadonlyMap<string, B>, 'get'>

/** Most listeners have none: one for all of them. */
const none: ReadonlyMap<string, never> = new Map<string, never>()

/** Of the backends that were known those that are listed no more and may keep their flows. */
export const stayingBackends = <B extends Backend>(
  known: Known<B>,
  { endpoints, staying = [] }: Pick<RelayListener, 'endpoints' | 'staying'>,
): ReadonlyMap<string, B> => {
  if (staying.length === 0) return none
  const kept = new Map(
    staying.flatMap(key => {
      const backend = known.get(key)
      return backend === undefined ? [] : [[key, backend]]
    }),
  )
  if (kept.size > 0) for (const { key } of endpoints) kept.delete(key)
  return kept
}

/** The backends for a new list of endpoints; those that stay keep their figures. */
export const nextBackends = (
  known: Known<Backend>,
  endpoints: readonly RelayEndpoint[],
): readonly Backend[] =>
  endpoints.map(
    ({ key, address, port }) =>
      known.get(key) ?? { key, address, port, active: 0, failures: 0, resting: false },
  )
