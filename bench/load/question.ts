import { benchProgram } from '../process/child.ts'
import type { Cores } from '../record/record.ts'
import type { Endpoint } from '../services.ts'

/** What the generator process is asked to do; one at a time. */
export type LoadQuestion = Traffic & {
  /** Length of the measured window; connections are made before it. */
  readonly seconds: number
  /** Whose CPU time and memory are read, in the generator, at the same instant as its counters. */
  readonly pids: Pids
}

export interface Pids {
  readonly backend: readonly number[]
  /** Empty for the direct path. */
  readonly proxy: readonly number[]
}

export type Traffic = {
  readonly [Kind in keyof Traffics]: Traffics[Kind] & { readonly kind: Kind }
}[keyof Traffics]

/** wrk(1), or a generator of the bench's own where it isn't installed. */
export type HttpGenerator = 'wrk' | 'own'

/** Where is asked what: `/64` or `/16384`. */
export interface Page {
  readonly to: Endpoint
  readonly path: string
}

/** Kinds of traffic. */
export interface Traffics {
  /** One request at a time on each of so many kept connections. */
  requests: Page & { readonly generator: HttpGenerator; readonly connections: number }
  /**
   * Connections of one request each, so many at a time, as fast as they go. Beside wrk a
   * few connections a second tell how long connecting takes.
   */
  connections: Page & { readonly generator: HttpGenerator; readonly parallel: number }
  /** New connections of one request each at a fixed rate, whatever becomes of them. */
  'paced-connections': PacedConnections
  /** Streams as fast as they go, to a `source` or a `sink`; with both, so many each way. */
  bulk: {
    readonly download?: Endpoint
    readonly upload?: Endpoint
    readonly streams: number
  }
  'open-loop': OpenLoop
  /** Requests as of `open-loop`, beside one stream from a `source` as fast as it goes. */
  mixed: OpenLoop & { readonly download: Endpoint }
  'udp-echoes': UdpEchoes
  /** Memory over connections that have nothing to say; takes no window. */
  idle: Page & { readonly connections: number }
  /** One connection to each of many Services, one after the other, none dialled before. */
  'first-connections': { readonly to: readonly Endpoint[]; readonly path: string }
  sessions: Sessions
  'kept-sessions': KeptSessions
  'kept-flows': KeptFlows
}

export interface PacedConnections extends Page {
  readonly perSecond: number
  /** One that has no whole answer by then has failed. */
  readonly timeoutMs: number
  /** The very first count, too: without a settling time before the window. */
  readonly fromTheFirst?: true
}

/**
 * Requests on kept connections at a fixed rate, each sent when it is due or when its
 * turn comes, and its latency counted from when it was due: a target that stalls is
 * charged for all requests that were due meanwhile ("coordinated omission").
 */
export interface OpenLoop extends Page {
  readonly connections: number
  readonly perSecond: number
}

export interface UdpEchoes {
  readonly to: Endpoint
  readonly flows: number
  /** At least 8. */
  readonly bytes: number
  /** Datagrams of each flow on their way at any time. */
  readonly window: number
  /** Each datagram is sent to an address, and says where it is from, as with resolvers of DNS. */
  readonly unconnected?: true
}

/** Clients that have short sessions, each on a connection of its own. */
export interface Sessions {
  readonly to: Endpoint
  /**
   * `hears first`: a line from the server; `asks first`: a line, after one of its own;
   * `postgres`: is let in without a password, and has one query answered.
   */
  readonly speaks: 'hears first' | 'asks first' | 'postgres'
  /** So many have one session after another. */
  readonly clients: number
  /** Between two sessions of such a client. */
  readonly pauseMs: number
  /** Beside those, so many come each second, for one session, whatever becomes of others. */
  readonly perSecond?: number
  /** One that has no answer by then has failed. */
  readonly timeoutMs: number
  /** So many of all `clients`, in place of those within the window. */
  readonly count?: number
  /** `postgres` only: sessions beside them that ask on and on, and are begun again. */
  readonly kept?: number
  /** `postgres` only: each answer is told, with the server's `cluster_name`. */
  readonly tellsVisits?: true
}

/**
 * Sessions with an echo that stay open from one such question to the next; takes no window. Each
 * question tells what has become of them since the last one (`done` of `tried`), and opens what
 * is missing; none are wanted to close them all.
 */
export interface KeptSessions {
  readonly to: Endpoint
  /** They have nothing to say until the next question, at which each is asked for an echo. */
  readonly idle: number
  /** Each sends a byte every 50 ms, whatever has come back. */
  readonly busy: number
  /** Each sends a byte every millisecond. */
  readonly busiest: number
}

/** Clients of a UDP echo that go on from one such question to the next, as `KeptSessions` do. */
export interface KeptFlows {
  readonly to: Endpoint
  readonly flows: number
}

/** One answer of a server. */
export interface Visit {
  /** Sessions are told apart by it. */
  readonly session: number
  readonly server: string
  /** Unix time in milliseconds. */
  readonly at: number
}

export interface LoadAnswer {
  /** Requests, connections, bytes or echoes within the window, and its true length. */
  readonly done: number
  readonly seconds: number
  /** Missing where the system doesn't tell. */
  readonly cores?: Cores
  /** CPU seconds of the proxy within the window. */
  readonly proxyCpuSeconds?: number
  /** Of the generator, the backends and the proxy; with the kernel's work for them. */
  readonly allCpuSeconds?: number
  /** Of the whole run, its start included. */
  readonly errors: Readonly<Record<string, number>>
  /** Milliseconds from a request (when due, in an open loop) to the end of its answer. */
  readonly latency?: Percentiles
  /** Milliseconds that connecting took. */
  readonly connect?: Percentiles
  /** Milliseconds by which the generator sent later than was due: its own fault. */
  readonly late?: Percentiles
  /** Growth by one idle connection: of the proxy's resident memory, and of the kernel's. */
  readonly memory?: { readonly userBytes: number; readonly kernelBytes: number }
  /** Bytes of the stream of `mixed` within the window. */
  readonly besideBytes?: number
  /** Of those that were tried, when not all of them were done. */
  readonly tried?: number
  readonly visits?: readonly Visit[]
  /** Milliseconds: the longest time without an echo, of each of the busiest sessions that are still open. */
  readonly pauses?: readonly number[]
  /** Short sessions that were reset at the same time as one of those that ask on and on. */
  readonly resetTogether?: number
}

export interface Percentiles {
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly p999: number
  readonly max: number
  readonly count: number
}

/** What `startChild` needs to start the generator process. */
export const generatorProgram: URL = benchProgram('load/main')
