import { type ClientLists, hasTraffic, type TrafficOptions } from '../model/traffic.ts'
import type { AddressRanges } from '../util/address-ranges.ts'
import { goNanoseconds } from '../util/duration.ts'

/**
 * What is in force beyond the spec of a Service, by the names that options have in a file of routes
 * (docs/sidecar-options.md): what is not said there and has no default is left out. Of lists there is
 * the number of ranges that they come to.
 */
export const optionsInForce = (
  options: TrafficOptions,
): Readonly<Record<string, string>> => {
  // As most of 10 000 Services are.
  if (!hasTraffic(options)) return {}
  const { retry, ages, limits, clients, acceptProxy, udp } = options
  const { serverNames, proxyProtocol, balance, capacity, accessLog } = options
  const all: Readonly<Record<string, string | number | undefined>> = {
    balance: balance?.by,
    slowStart: duration(balance?.slowStartMs),
    maxConnections: capacity?.maxConnections,
    queue: duration(capacity?.queueMs, true),
    mostQueued: capacity?.mostQueued,
    maxRouteConnections: limits?.routeConnections,
    maxRouteRate: limits?.routeRate,
    maxClientConnections: limits?.clientConnections,
    maxClientRate: limits?.clientRate,
    ...listed(clients),
    acceptProxy: acceptProxy && rangesText([acceptProxy]),
    proxyProtocol,
    serverNames: serverNames && `${serverNames.pools.length} pools`,
    retryEarlyClose: retry?.earlyClose === false ? 'off' : undefined,
    replay: retry === undefined || retry.replay === 0 ? undefined : retry.replay,
    answerWithin: duration(retry?.answerMs),
    hold: duration(retry?.holdMs),
    idleTimeout: duration(ages?.idleMs),
    lifetime: duration(ages?.lifetimeMs),
    udpIdleTimeout: duration(udp?.idleMs),
    udpSpread: udp?.spread,
    accessLog: accessLog?.format,
    accessLogTo: accessLog?.to,
  }
  const given = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as const],
  )
  return Object.fromEntries(given)
}

/** `1m30s`; without `writesZero` there is none of 0. */
const duration = (ms: number | undefined, writesZero = false): string | undefined =>
  ms === undefined || (ms === 0 && !writesZero) ? undefined : goNanoseconds(ms * 1e6)

const listed = ({ allow, deny, probers }: ClientLists = {}) => ({
  allow: allow && rangesText(allow),
  deny: deny && rangesText(deny),
  probers: probers && rangesText(probers),
})

const rangesText = (lists: readonly AddressRanges[]): string => {
  const count = lists.reduce(
    (sum, { ipv4, ipv6 }) => sum + ipv4.length / 2 + ipv6.length / 8,
    0,
  )
  return `${count} ${count === 1 ? 'range' : 'ranges'}`
}
