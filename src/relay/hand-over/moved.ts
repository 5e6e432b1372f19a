import type { Remembered } from '../../balance/affinity.ts'
import type { AddressPort } from '../../util/ip.ts'
import type { Bind, RelayEndpoint } from '../relay.ts'

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

/** Which connections are to go next. */
export interface BatchLimits {
  /** Of their descriptors. */
  readonly mostFds: number
  /** Those from whose ends nothing has come for so many milliseconds; 0: any. */
  readonly quietMs: number
}

/** Connections that were taken out of the loop, and their descriptors. */
export interface GivenConnections {
  readonly connections: readonly MovedConnection[]
  readonly fds: readonly number[]
}

/**
 * A UDP flow on its way. Its socket travels beside it. Its client's last datagram does not: if that is
 * refused after all it is lost, and the client's next one goes elsewhere.
 */
export interface MovedFlow {
  readonly endpoint: RelayEndpoint
  /** Struct sockaddr of the client, and the address that it wrote to where the socket has several; in words. */
  readonly name: readonly number[]
  readonly destination?: readonly number[] | undefined
  readonly ttl: number
  readonly idleMs: number
  readonly answered: boolean
  /** Of its endpoint. */
  readonly hasRequest: boolean
  readonly hasReply: boolean
  readonly refusedBy?: readonly string[] | undefined
  /** Datagrams before it is the next endpoint's turn; undefined: any number. */
  readonly left?: number | undefined
}

/** Some flows of one listening socket, out of the loop, and their descriptors. */
export interface GivenFlows {
  /** In this order they are to be added: of one client with several the current one comes last. */
  readonly flows: readonly MovedFlow[]
  /** There are no more; with these the socket itself goes. */
  readonly isLast: boolean
  readonly fds: readonly number[]
}

/** The same on its way: from the `socket`th of those at `bind`. */
export interface MovedFlows extends Omit<GivenFlows, 'fds'> {
  readonly bind: Bind
  readonly socket: number
}

/** Where affinity leads clients of a listener, as the worker knew that has the `socket`th of `of` sockets. */
export interface MovedAffinity {
  /** Id of the listener. */
  readonly listener: string
  readonly socket: number
  /** 0: any worker may get its clients. */
  readonly of: number
  readonly clients: readonly Remembered[]
}

/** Why connections stay, and how many. */
export type Staying = Readonly<Record<string, number>>
