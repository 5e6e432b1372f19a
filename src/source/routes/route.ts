import type { CheckOption } from '../../health/check-option.ts'
import type { CheckEffects, Protocol } from '../../model/service.ts'
import type { TrafficOptions } from '../../model/traffic.ts'
import {
  type AddressPort,
  familyOf,
  isLoopback,
  joinHostPort,
  wildcardOf,
} from '../../util/ip.ts'
import { unixPlace } from '../../util/unix-address.ts'

export interface RouteBackend {
  /** A canonical address, a unix socket, or a host name in lower case. */
  readonly host: string
  /** 0 with `srv`, whose records have the ports, and of a unix socket. */
  readonly port: number
  /** 0 first; those of a higher one are for when all of the lower ones are down. */
  readonly tier: number
  readonly srv?: true
  /** Of each of its addresses, beside others of its tier; 1 when it is not said. */
  readonly weight?: number
}

/** As it is given: `db.example:5432`, `srv:_pg._tcp.example`. */
export const backendText = ({
  host,
  port,
  srv,
}: Pick<RouteBackend, 'host' | 'port' | 'srv'>): string =>
  srv === true ? `srv:${host}` : joinHostPort(host, port)

/** Backends for TLS clients that ask for some servers; they are among those of the route. */
export interface RoutePool {
  readonly names: readonly string[] | undefined
  readonly alpn: readonly string[] | undefined
  readonly backends: readonly RouteBackend[]
}

/** Where a sidecar listens and where it goes, from `--route` or from a file. */
export interface Route extends TrafficOptions, CheckEffects {
  /** The flag as it was given; of a file the route's name, or else where it listens. */
  readonly text: string
  /** A DNS label, unique among the routes. */
  readonly name: string
  readonly protocol: Protocol
  /** Addresses and ports, or unix sockets. */
  readonly listens: readonly [AddressPort, ...AddressPort[]]
  readonly backends: readonly RouteBackend[]
  /** Then `others` are the backends for all other clients; without any these are refused. */
  readonly pools?: readonly RoutePool[] | undefined
  readonly others?: readonly RouteBackend[] | undefined
  /** 0 for none. */
  readonly affinityMs: number
  /** How endpoints are checked; undefined: they are not. */
  readonly check: CheckOption | undefined
  /** Who may be a client and who not: blocks of addresses, and files of them. See `ListFiles`. */
  readonly lists?:
    | {
        readonly deny?: readonly string[] | undefined
        readonly allow?: readonly string[] | undefined
        readonly probers?: readonly string[] | undefined
      }
    | undefined
  /** What becomes of connections to an address that is no longer one of the route's. */
  readonly onGone: 'keep' | 'reset'
}

/**
 * Whether a backend is the very address that the route listens on: each connection
 * would open the next, until the file descriptors are gone.
 */
export const isLoop = (
  listens: readonly AddressPort[],
  host: string,
  port: number,
): boolean =>
  listens.some(
    listen =>
      port === listen.port &&
      (host === unixPlace(listen.address) ||
        (listen.address === wildcardOf(familyOf(host) ?? 'IPv4') && isLoopback(host))),
  )
