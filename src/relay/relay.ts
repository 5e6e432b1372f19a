import type { ListenerCounters } from './counters.ts'
import type { RelayProtocol } from '../model/service.ts'
import type { TrafficOptions } from '../model/traffic.ts'
import type { AddressRanges } from '../util/address-ranges.ts'
import type { Cause, ConnectionRecord } from './cause.ts'
import type { QueryResult, QueryParams, QueryName } from './queries.ts'

/** An address and port to listen on. */
export interface Bind {
  readonly address: string
  readonly port: number
}

/** A bind as the key of a map. */
export const bindKey = ({ address, port }: Bind): string => `${address} ${port}`

/** Where a connection may go. `key` is `ip:port`, the identity across updates. */
export interface RelayEndpoint {
  readonly key: string
  readonly address: string
  readonly port: number
  /** Used when those of lower tiers fail; 0 when it is not said. */
  readonly tier?: number | undefined
  /** Its share of the turns, beside others of its tier; 1 when it is not said. See RoundRobin. */
  readonly weight?: number | undefined
}

/** What becomes of the open TCP connections of an endpoint that is drained; see `idleBeforeCloseMs`. */
export type DrainClose = 'none' | 'idle' | 'all'

/** An endpoint that is to have no new connections and flows, whether it is listed or not. */
export interface DrainedEndpoint {
  readonly key: string
  readonly close: DrainClose
}

/** Keys of some of a listener's endpoints, or all of them. */
export type EndpointChoice = 'all' | readonly string[]

/**
 * Some of a listener's addresses, and what their clients get. The relay sees clients only
 * when their handshake is over, so that one who may not connect is reset, where packet
 * filters keep silent; UDP datagrams are dropped without a word. Both are counted.
 */
export interface RelayFront {
  readonly binds: readonly Bind[]
  /** Empty, also for clients on this node: the sockets are closed, the kernel refuses. */
  readonly endpoints: EndpointChoice
  /**
   * What clients on this node and its pods get, whom externalTrafficPolicy spares;
   * undefined: the same as everybody else.
   */
  readonly endpointsFromNode: EndpointChoice | undefined
  /** Clients that may connect; undefined: everybody. Empty closes the sockets. */
  readonly allowedClients: AddressRanges | undefined
  /** Why the sockets are closed, when they are; for log and status. */
  readonly closedReason: string
}

/**
 * Everything the relay knows of one ServicePort, as plain data. Listeners with the same
 * `id` in two calls of `apply` are the same listener: its sockets stay open, its
 * balancer keeps its position and affinity, its connections stay where they are.
 */
export interface RelayListener extends TrafficOptions {
  readonly id: string
  /** `namespace/name:port`, for logs and metrics. */
  readonly name: string
  readonly protocol: RelayProtocol
  /** No address is in two of them. */
  readonly fronts: readonly RelayFront[]
  /** All that any client may get. */
  readonly endpoints: readonly RelayEndpoint[]
  /**
   * Keys of others that still serve, as they do while they terminate: UDP flows that go
   * there stay, as TCP connections do anyway. None by default.
   */
  readonly staying?: readonly string[]
  /**
   * Keys of endpoints whose TCP connections are to be reset, or all connections. Those of `endpoints`
   * among them get new ones, which stay: theirs are reset once, when the key is first here. None by
   * default.
   */
  readonly cut?: EndpointChoice
  /** The same, as one of `endpoints` is up again that goes before them. */
  readonly backups?: readonly string[]
  /**
   * By an operator's order. Those of `endpoints` among them have figures still; UDP flows that go
   * there stay, unless all are to be closed. None by default.
   */
  readonly drained?: readonly DrainedEndpoint[]
  /**
   * Until this is gone TCP clients wait and nothing is dialled for them; each for
   * `retry.holdMs`, or 60 s where that is 0, counted from its accept. False by default.
   */
  readonly paused?: boolean
  /** Sliding ClientIP affinity in milliseconds, across all fronts; 0 for none. */
  readonly affinityMs: number
  /**
   * Addresses without a socket from which the kernel's rules lead to one of the binds: an endpoint
   * there would be the listener itself.
   */
  readonly steered?: readonly Bind[]
}

/** Named as the options are; all times in milliseconds. */
export interface RelayLimits {
  /** How long until the next dial attempt starts beside the earlier ones, for each step. */
  readonly dialLadder: readonly number[]
  /** A half-closed connection in which no byte moved for so long is ended. */
  readonly halfCloseTimeout: number
  /** The same for a whole connection; 0 for never. */
  readonly tcpIdleTimeout: number
  /** Bytes one direction of one connection may hold, in user memory or in a pipe. */
  readonly connectionBuffer: number
  /** Idle limit of a UDP flow before its first reply, and after it. */
  readonly udpReplyTimeout: number
  readonly udpTimeout: number
  /** Flows of one listener, and of all. */
  readonly udpMaxFlowsPerPort: number
  readonly udpMaxFlows: number
  /**
   * Bytes that all connections of a worker may hold together (64 MiB); beyond that nothing is
   * read that can't be passed on at once. The Linux relay only.
   */
  readonly heldBytes?: number
  /** File descriptors kept back for the process's own use. */
  readonly reservedFds: number
  /**
   * Keep-alive probes of an idle TCP connection: idle time before the first one (15 s; 0:
   * none are sent), time between two (1 s), and how many unanswered ones end it (10). The
   * portable relay has the idle time only.
   */
  readonly tcpKeepalive?: number | undefined
  readonly tcpKeepaliveInterval?: number | undefined
  readonly tcpKeepaliveProbes?: number | undefined
  /**
   * How long data may stay unacknowledged before the connection is ended (tcp(7),
   * TCP_USER_TIMEOUT; RFC 5482); 0, which is the default: as long as the kernel retries.
   * The Linux relay only.
   */
  readonly tcpUserTimeout?: number | undefined
}

export type BindState =
  | { readonly bind: Bind; readonly state: 'listening' }
  | { readonly bind: Bind; readonly state: 'binding' }
  | { readonly bind: Bind; readonly state: 'closed'; readonly reason: string }
  | {
      readonly bind: Bind
      readonly state: 'failed'
      readonly error: string
      /** Epoch milliseconds of the first failure in a row. */
      readonly since: number
      /** No client is to get in there now: it is the port that can't be kept. */
      readonly isIdle?: true
    }

export interface ListenerStats {
  readonly id: string
  readonly name: string
  readonly protocol: RelayProtocol
  readonly binds: readonly BindState[]
  /** One that is not there has nothing to tell. */
  readonly endpoints: readonly EndpointStats[]
  readonly counters: Readonly<ListenerCounters>
  /** What went wrong last, '' when nothing has. */
  readonly lastError: string
  /** The last TCP client that was accepted, seconds ago at most, got no endpoint. */
  readonly failing: boolean
  /** False once `apply` left it out and only its last connections keep it alive. */
  readonly wanted: boolean
}

export interface EndpointStats {
  readonly key: string
  readonly active: number
  readonly failures: number
  /** It failed a moment ago, so that others are preferred while there are any. */
  readonly coolingDown: boolean
  /** Smoothed round-trip time of a TCP connection to it, where the relay can tell. */
  readonly rttMs?: number
  /** Segments that were sent again, on the connections that were asked. */
  readonly retransmits?: number
}

/** A thread, or process, that carries connections. */
export interface WorkerStats {
  /** 1, 2, ... */
  readonly thread: number
  /** How often it has died, and all of them were started again. */
  readonly restarts: number
  /** How often that was because it had given no sign of life. */
  readonly hangs: number
  /** Bytes that its connections hold for slow readers. */
  readonly heldBytes: number
}

export interface RelayStats {
  /**
   * Made one by one as they are asked for: 10 000 at once would hold the event loop. One of which
   * nothing has changed since it was last asked for may be the same object.
   */
  readonly listeners: Iterable<ListenerStats>
  /** File descriptors the relay holds, and how many it may. */
  readonly fds: { readonly used: number; readonly limit: number }
  /** True while no new connection is accepted for want of file descriptors. */
  readonly acceptPaused: boolean
  /** Of a relay that has several. */
  readonly workers?: readonly WorkerStats[]
  /** How often its process was started again; only of one that has a process of its own. */
  readonly restarts?: number
}

export interface DrainResult {
  /** Connections that were reset at the deadline. */
  readonly reset: number
}

/** Who is on this node: what spares them is for outside clients. */
export interface NodeClients {
  readonly addresses: readonly string[]
  /** Of loopback, and of pods whose traffic counts as the node's. */
  readonly cidrs: readonly string[]
}

/** Where the next Usher finds what this one hands over; see `hand-over/channel.ts`. */
export interface HandOverPlace {
  readonly name: string
  readonly token: string
  /** Why there is no such place; '' when there is. */
  readonly refused: string
}

/** What listens that another process has handed over. */
export interface Inheritance {
  /** Why there is nothing; '' when there is. */
  readonly refused: string
  readonly sockets: readonly {
    /** Id of the listener that had it. */
    readonly listener: string
    readonly protocol: RelayProtocol
    readonly bind: Bind
  }[]
}

/** How handing over to another process has ended. */
export interface HandedOver {
  readonly pid: number
  /** Why it has got nothing; '' when it serves in this one's place. */
  readonly refused: string
  readonly connections: number
  /** Of UDP. */
  readonly flows: number
  /** How many connections and flows have stayed here, to be drained, by why. */
  readonly staying: Readonly<Record<string, number>>
}

/** How taking over from another process has ended. */
export interface TakenOver {
  readonly pid: number
  /** From when all was listened on until all was here. */
  readonly ms: number
  readonly connections: number
  readonly flows: number
  /** As of `HandedOver`. */
  readonly staying: Readonly<Record<string, number>>
  /** Why not all has come that should have; '' when it has. */
  readonly lost: string
}

/** The userspace data path. Knows listeners, never where they came from. */
export interface Relay {
  /**
   * Makes the set of listeners equal to `listeners`. Resolves when each new bind has
   * succeeded or failed once; a failed one is tried again by the relay on its own. A TCP
   * port that passes from one listener to another in one call refuses and loses no client.
   * A listener that is the same object as in the last call is taken to be unchanged.
   * Calls don't overlap.
   */
  apply(listeners: readonly RelayListener[]): Promise<void>
  /**
   * For `RelayFront.endpointsFromNode`, from now on; until it is called, no client is. Connections stay
   * where they are; UDP flows go by it when their listener changes.
   */
  setNodeClients(clients: NodeClients): void
  /** Never long in coming: a relay that can't read them gives the last ones. */
  stats(): RelayStats | Promise<RelayStats>
  /** About its connections; see `Queries`. */
  query<Q extends QueryName>(name: Q, params: QueryParams<Q>): Promise<QueryResult<Q>>
  /** Stops accepting, waits for connections to end, resets what is left after `ms`. */
  drain(ms: number): Promise<DrainResult>
}

/** What passes from one process to the next on the same host. */
export interface HandsOver {
  /** Opens a place at which one other process may take over. Rejects when that is under way, or it is ending. */
  handOver(): Promise<HandOverPlace>
  /**
   * How that has ended; rejects when the other process has ended before it had anything, and all is as
   * before. Otherwise what is left is to be drained: that does not end what the other process has.
   */
  handedOver(): Promise<HandedOver>
  /**
   * Takes over what another process has open there: sockets for the next `apply`, and with
   * `finishTakeOver`, when that is done, connections.
   */
  takeOver(place: HandOverPlace): Promise<Inheritance>
  finishTakeOver(): Promise<TakenOver | undefined>
}

/** Lines of the access log of one listener. */
export interface AccessBatch {
  readonly listener: string
  /** As `AccessLogOptions.to`. */
  readonly to: string
  /** Each line with its end. */
  readonly text: string
  readonly lines: number
  /** How many more there would be, for which there was no room, or that went with who had them. */
  readonly lost: number
}

/** Is notified by the relay. Called on the data path: keep it cheap. */
export interface RelayObserver {
  /** Whether `connectionClosed` wants the record of a connection that ended so. */
  wants(cause: Cause): boolean
  connectionClosed(record: ConnectionRecord): void
  bindChanged(listener: string, state: BindState): void
  acceptPaused(paused: boolean, used: number, limit: number): void
  /** A worker gives no sign of life, or has been started again. */
  workerHung(thread: number, hung: boolean): void
  /** The process of the relay has ended, and why; '' when another serves in its place. */
  processGone?(reason: string): void
  /**
   * An endpoint of this listener has failed, or all that a client may get: they refused, were silent
   * or, where `RetryOptions` says so, closed early or had no answer. At most once a second for each
   * listener of a worker.
   */
  allFailed?(listener: string): void
  /** Of listeners that have an access log: connections have ended. */
  accessLines?(batch: AccessBatch): void
  /** Something that must not happen and did not end the process. */
  fault(listener: string, error: Error): void
}

/** Ignores everything. */
export const silentObserver: RelayObserver = {
  wants: () => false,
  connectionClosed: () => {},
  bindChanged: () => {},
  acceptPaused: () => {},
  workerHung: () => {},
  fault: () => {},
}
