import type { EndpointStats, RelayEndpoint } from './relay.ts'

/**
 * An endpoint with what the relay knows of it. One object as long as it stays listed, or
 * keeps its flows.
 */
export interface Backend extends RelayEndpoint, EndpointStats {
  tier?: number | undefined
  active: number
  failures: number
  resting: boolean
}
