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

/** Of the backends that were known those that are listed no more and may keep their flows. */
export const stayingBackends = <B extends Backend>(
  known: ReadonlyMap<string, B>,
  { endpoints, staying = [] }: Pick<RelayListener, 'endpoints' | 'staying'>,
): Map<string, B> => {
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
  before: ReadonlyMap<string, Backend>,
  endpoints: readonly RelayEndpoint[],
): Map<string, Backend> => {
  const after = new Map<string, Backend>()
  for (const endpoint of endpoints) {
    const { key, address, port } = endpoint
    const known = before.get(key)
    after.set(
      key,
      known ?? { key, address, port, active: 0, failures: 0, resting: false },
    )
  }
  return after
}
