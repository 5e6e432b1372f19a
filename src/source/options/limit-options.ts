import * as v from 'valibot'
import type { ConnectionLimits } from '../../model/traffic.ts'
import { countOf, type Given } from './option-kinds.ts'

const most = 1_000_000

const connections = (example: number, description: string) =>
  v.pipe(countOf('connections', most, example), v.description(description))

const rate = (example: number, description: string) =>
  v.pipe(countOf('connections a second', most, example), v.description(description))

/** How many connections are taken. */
export const limitOptions = {
  maxRouteConnections: connections(
    1000,
    'TCP only; any number by default. How many connections are open at most; one that comes beyond that is reset.',
  ),
  maxRouteRate: rate(
    200,
    'TCP only; any number by default. How many connections may come in a second, as many of them at once; others are reset.',
  ),
  maxClientConnections: connections(
    20,
    'TCP only; any number by default. How many a client address may have open at most.',
  ),
  maxClientRate: rate(
    10,
    'TCP only; any number by default. How many may come from a client address in a second.',
  ),
}

/** Of options without faults; undefined where none is given. */
export const decodeLimits = (
  raw: Given<typeof limitOptions>,
): ConnectionLimits | undefined => {
  const limits: ConnectionLimits = {
    routeConnections: raw.maxRouteConnections,
    routeRate: raw.maxRouteRate,
    clientConnections: raw.maxClientConnections,
    clientRate: raw.maxClientRate,
  }
  return Object.values(limits).every(limit => limit === undefined) ? undefined : limits
}
