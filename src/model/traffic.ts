import { isDeepStrictEqual } from 'node:util'
import type { AddressRanges } from '../util/address-ranges.ts'
import type { ProxyVersion } from '../util/proxy-header.ts'
import type { AccessLogOptions } from './access-log.ts'
import type { BalanceBy } from './balance-policies.ts'

/** What is done for clients of an endpoint that has accepted, or takes datagrams, and does not serve. */
export interface RetryOptions {
  /** Another endpoint is dialled when one ends before its first byte, and nothing was sent to it. */
  readonly earlyClose: boolean
  /** So many bytes of the client may have been sent, and are sent again; 0 for none. */
  readonly replay: number
  /**
   * Milliseconds that an endpoint may take for its first byte after the client's first; then
   * another is dialled, where what was said can be sent again. Undefined, which is the default: any.
   */
  readonly answerMs?: number | undefined
  /**
   * Milliseconds that a client waits for an endpoint to come back, from its accept on, when none
   * could be connected to; 0, which is the default: as long as the dial ladder.
   */
  readonly holdMs?: number | undefined
  /** How many wait at most (256); the newest is refused. */
  readonly mostHeld?: number | undefined
  /** How endpoints are checked, as text: those listed are up, as far as is known. Undefined: they are not. */
  readonly check?: string | undefined
  /**
   * UDP, where all the others are for TCP: an endpoint that answers no flow has failed, as far as
   * other endpoints answer. False by default.
   */
  readonly expectsReplies?: boolean | undefined
}

/** Which endpoint a new connection goes to. */
export interface BalanceOptions {
  /** `round-robin` is the default. */
  readonly by: BalanceBy
  /** Milliseconds in which an endpoint that was down gets its full share; 0 or undefined: at once. */
  readonly slowStartMs?: number | undefined
  /** Weights of endpoints by the name of their zone; 1 for all others. */
  readonly zoneWeights?: Readonly<Record<string, number>> | undefined
}

/** How many connections an endpoint may have, and who waits for a place there. */
export interface CapacityOptions {
  /** Of each endpoint of the listener, over all workers, dials under way included. */
  readonly maxConnections: number
  /** Milliseconds that a client waits for a place; 0: it is reset at once. */
  readonly queueMs: number
  /** How many wait at most; the newest is reset. */
  readonly mostQueued: number
}

/** How long TCP connections may be there. */
export interface ConnectionAges {
  /**
   * Milliseconds without a byte after which one is ended; in place of the relay's tcpIdleTimeout,
   * which counts where it is undefined.
   */
  readonly idleMs?: number | undefined
  /** Milliseconds that one lasts at most, less up to a tenth of that; undefined: any. */
  readonly lifetimeMs?: number | undefined
}

/** How many TCP connections are taken; any number where one is undefined. */
export interface ConnectionLimits {
  /** That are open, of all clients. */
  readonly routeConnections?: number | undefined
  /** That come in a second, of all clients. */
  readonly routeRate?: number | undefined
  /** The same of each client address. */
  readonly clientConnections?: number | undefined
  readonly clientRate?: number | undefined
}

/** How UDP flows are treated. */
export interface UdpOptions {
  /** Milliseconds without a datagram after which one ends, answered or not; undefined: the relay's limits. */
  readonly idleMs?: number | undefined
  /** So many datagrams of a client go to one endpoint before the next one's turn; undefined: all. */
  readonly spread?: number | undefined
}

/** Who may be a client. */
export interface ClientLists {
  /** Nobody of these; it is looked at first. */
  readonly deny?: readonly AddressRanges[] | undefined
  /** Nobody but these; undefined: everybody. */
  readonly allow?: readonly AddressRanges[] | undefined
  /** TCP connections of these are closed in order, and are no clients. */
  readonly probers?: readonly AddressRanges[] | undefined
}

/** Endpoints for TLS clients of some servers. */
export interface ServerNamePool {
  /** In lower case, `*.` in front for all below; undefined: any, and none. */
  readonly names?: readonly string[] | undefined
  /** One of them has to be offered. */
  readonly alpn?: readonly string[] | undefined
  /** Keys of some of the listener's. */
  readonly endpoints: readonly string[]
}

/** TLS clients get endpoints by the server that they ask for. */
export interface ServerNameRules {
  readonly pools: readonly ServerNamePool[]
  /** Keys of those for all other clients, TLS or not; undefined: these are refused. */
  readonly others: readonly string[] | undefined
}

/**
 * How a relay treats the clients of a ServicePort, beyond what the spec of a Service can say. All
 * are off where they are undefined. Plain data, comparable by value.
 */
export interface TrafficOptions {
  readonly retry?: RetryOptions | undefined
  readonly ages?: ConnectionAges | undefined
  readonly limits?: ConnectionLimits | undefined
  readonly clients?: ClientLists | undefined
  /** A connection from one of these begins with a header of the PROXY protocol, which says who the client is. */
  readonly acceptProxy?: AddressRanges | undefined
  readonly serverNames?: ServerNameRules | undefined
  /** Each endpoint is told who the client is, by a header of the PROXY protocol before its first byte. */
  readonly proxyProtocol?: ProxyVersion | undefined
  readonly balance?: BalanceOptions | undefined
  readonly capacity?: CapacityOptions | undefined
  readonly accessLog?: AccessLogOptions | undefined
  readonly udp?: UdpOptions | undefined
}

/** Whether each is about a protocol; `only`: about UDP alone. */
const isForUdp: Readonly<Record<keyof TrafficOptions, boolean | 'only'>> = {
  // Of these one is.
  retry: true,
  ages: false,
  limits: false,
  clients: true,
  acceptProxy: false,
  serverNames: false,
  proxyProtocol: false,
  balance: true,
  capacity: false,
  accessLog: false,
  udp: 'only',
}

const names = Object.keys(isForUdp) as readonly (keyof TrafficOptions)[]

/** Those that are about a protocol. */
export const trafficOf = (
  options: TrafficOptions,
  protocol: 'TCP' | 'UDP' | 'SCTP',
): TrafficOptions =>
  Object.fromEntries(
    names
      .filter(name => options[name] !== undefined && isAbout(options, name, protocol))
      .map(name => [name, options[name]]),
  )

const isAbout = (
  { retry }: TrafficOptions,
  name: keyof TrafficOptions,
  protocol: 'TCP' | 'UDP' | 'SCTP',
): boolean => {
  if (protocol === 'TCP') return isForUdp[name] !== 'only'
  if (name === 'retry' && retry?.expectsReplies !== true) return false
  return protocol === 'UDP' && isForUdp[name] !== false
}

/** Whether any is given. */
export const hasTraffic = (options: TrafficOptions): boolean =>
  names.some(name => options[name] !== undefined)

export const sameTraffic = (a: TrafficOptions, b: TrafficOptions): boolean =>
  names.every(name => isDeepStrictEqual(a[name], b[name]))
