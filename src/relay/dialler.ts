import type { Backend } from './backend.ts'
import type { DialAttempt } from './dial-attempt.ts'
import type { RelayLimits } from './relay.ts'
import type { GiveUpCause } from './retry-plan.ts'

/** Who dials for connections of a kind: its sockets, timers and descriptors. */
export interface Dialler<B extends Backend, Socket, Connection> {
  readonly limits: Pick<RelayLimits, 'dialLadder'>
  readonly random: () => number
  readonly fds: { take(count: number): boolean; release(count: number): void }
  now(): number
  /** The address of the client, where the balancer looks at it. */
  clientOf(connection: Connection): string
  acceptedAt(connection: Connection): number
  /** It has waited since then for an endpoint to come back, or for a place at one. */
  waited(connection: Connection, what: 'heldMs' | 'queuedMs', since: number): void
  /** Calls `Dial.timer` after `ms`, in place of what was set before. */
  setTimer(connection: Connection, ms: number): void
  clearTimer(connection: Connection): void
  /** Starts an attempt; what comes of it goes to `Dial.won` or `Dial.lost`. */
  connect(attempt: DialAttempt<B, Socket, Connection>): void
  close(socket: Socket): void
  /** Whether the client has ended its side, and has said nothing. */
  hasLeft(connection: Connection): boolean
  /** No endpoint could be connected to, or (`CC`) the client did not wait for it. */
  gaveUp(connection: Connection, cause: GiveUpCause, detail: string): void
}
