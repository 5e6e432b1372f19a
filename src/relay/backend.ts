import type { Balanced } from '../balance/balancer.ts'
import type { Cell } from '../balance/cell.ts'
import type { Doubts } from '../balance/doubts.ts'
import type { Replies } from '../balance/replies.ts'
import type { Recovery } from '../balance/slow-start.ts'
import type { EndpointStats, RelayEndpoint } from './relay.ts'
import type { EndpointPlaces } from './shared-places.ts'

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
  /** Only where they count: see `countsUnserved`. */
  doubts?: Cell<Doubts> | undefined
  /** In this worker: when it last had an answer for a client, where answers are waited for. */
  servedAt?: number | undefined
  /** Only where there is a slow start. */
  recovery?: Cell<Recovery> | undefined
  /** In this worker: why, in words, and when by its clock. */
  lastFailure?: { readonly why: string; readonly at: number } | undefined
  /** One for each TCP connection and dial, of all workers; only where they are counted. */
  places?: EndpointPlaces | undefined
}
