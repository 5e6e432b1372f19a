import type { AddressPort } from '../../util/ip.ts'
import type { RelayEndpoint } from '../relay.ts'

/**
 * An open connection on its way to another process of this host. All that TCP has to know of it is the
 * kernel's; this is what Usher adds. Times are how long ago, in milliseconds; bytes are in base64. Its
 * descriptors travel beside it: client, endpoint, then both ends of the pipe of each side that has
 * bytes in one, the client's first.
 */
export interface MovedConnection {
  /** Id of its listener. */
  readonly listener: string
  readonly endpoint: RelayEndpoint
  /** Struct sockaddr of the client, in words. */
  readonly peer: readonly number[]
  readonly acceptedMs: number
  readonly connectedMs: number
  readonly heldMs: number
  readonly queuedMs: number
  readonly awaitsAnswer: boolean
  readonly asksTls: boolean
  readonly attempts: readonly MovedAttempt[]
  readonly client: MovedSide
  readonly backend: MovedSide
  readonly ttl?: number | undefined
  readonly dialled?: AddressPort | undefined
  readonly header?: string | undefined
  /** Since one of its ends is gone, and since something has moved, where that was looked at. */
  readonly halfClosedMs?: number | undefined
  readonly quietMs?: number | undefined
}

export interface MovedSide {
  /** See `flag`. */
  readonly flags: number
  readonly bytes: number
  readonly piped: number
  readonly held?: string | undefined
  readonly replay?: string | undefined
}

export interface MovedAttempt {
  readonly endpoint: string
  readonly result: string
  readonly ms: number
  readonly unservedAfter: number
}

/** Connections that were taken out of the loop, and their descriptors. */
export interface GivenConnections {
  readonly connections: readonly MovedConnection[]
  readonly fds: readonly number[]
}

/** Why connections stay, and how many. */
export type Staying = Readonly<Record<string, number>>
