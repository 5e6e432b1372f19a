import { isWildcard } from '../../util/ip.ts'
import type { Route } from './route.ts'

/**
 * Whether a backend is the very address that the route listens on: each connection
 * would open the next, until the file descriptors are gone.
 */
export const isLoop = (listen: Route['listen'], host: string, port: number): boolean =>
  port === listen.port &&
  (host === listen.address || (isWildcard(listen.address) && isLoopback(host)))

const isLoopback = (address: string): boolean =>
  address === '::1' || /^127\.\d+\.\d+\.\d+$/.test(address)
