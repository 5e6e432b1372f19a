import type { Balanced } from '../balance/balancer.ts'
import type { Cell } from '../balance/cell.ts'
import type { Replies } from '../balance/replies.ts'
import type { EndpointStats, RelayEndpoint } from './relay.ts'

/**
 * An endpoint with what the relay knows of it. One object as long as it stays listed, or
 * keeps its flows.
 */
export interface Backend extends RelayEndpoint, EndpointStats, Balanced {
  tier?: number | undefined
  weight?: number | undefined
  active: number
  failures: number
  resting: boolean
  /** Only where they count: `retry.expectsReplies`. */
  replies: Cell<Replies> | undefined
}
