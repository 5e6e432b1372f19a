import type { Protocol } from '../../model/service.ts'
import { isWildcard } from '../../util/ip.ts'

export interface RouteBackend {
  /** A canonical address, or a host name in lower case. */
  readonly host: string
  readonly port: number
}

/** One `--route` of a sidecar. */
export interface Route {
  /** As it was given. */
  readonly text: string
  readonly protocol: Protocol
  readonly listen: { readonly address: string; readonly port: number }
  readonly backends: readonly RouteBackend[]
  /** 0 for none. */
  readonly affinityMs: number
}

/**
 * Whether a backend is the very address that the route listens on: each connection
 * would open the next, until the file descriptors are gone.
 */
export const isLoop = (listen: Route['listen'], host: string, port: number): boolean =>
  port === listen.port &&
  (host === listen.address || (isWildcard(listen.address) && isLoopback(host)))

const isLoopback = (address: string): boolean =>
  address === '::1' || /^127\.\d+\.\d+\.\d+$/.test(address)
