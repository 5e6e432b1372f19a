import type { EndpointStats, RelayEndpoint } from './relay.ts'

/** An endpoint with what the relay knows of it. One object as long as it stays listed. */
export interface Backend extends RelayEndpoint, EndpointStats {
  active: number
  failures: number
  resting: boolean
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
