import { isDeepStrictEqual } from 'node:util'
import type { EndpointSlice, EndpointSpec, SlicePort } from './service.ts'
import type {
  Endpoint,
  ServiceHealthCheck,
  ServicePort,
  Target,
  Vip,
} from './snapshot.ts'
import { sameTraffic } from './traffic.ts'

/** Whether two lists have the same length and, place for place, the same items. */
const sameList = <T>(
  a: readonly T[],
  b: readonly T[],
  same: (a: T, b: T) => boolean,
): boolean => {
  if (a === b) return true
  if (a.length !== b.length) return false
  return a.every((item, index) => {
    const other = b[index]
    return other !== undefined && same(item, other)
  })
}

const sameTexts = (a: readonly string[], b: readonly string[]): boolean =>
  sameList(a, b, Object.is)

/** Whether two ServicePorts of the same key and family say the same. */
export const sameServicePort = (a: ServicePort, b: ServicePort): boolean =>
  a.affinityMs === b.affinityMs &&
  sameTraffic(a, b) &&
  isDeepStrictEqual(a.checks, b.checks) &&
  a.relayed === b.relayed &&
  a.internalTrafficPolicy === b.internalTrafficPolicy &&
  a.externalTrafficPolicy === b.externalTrafficPolicy &&
  sameList(a.vips, b.vips, sameVip) &&
  sameTexts(a.sourceRanges ?? allClients, b.sourceRanges ?? allClients) &&
  sameList(a.endpoints, b.endpoints, sameEndpoint) &&
  sameTarget(a.internal, b.internal) &&
  sameTarget(a.external, b.external) &&
  sameTarget(a.externalFromNode, b.externalFromNode)

/** Stands for no ranges at all, where an empty list allows no client. */
const allClients = ['']

const sameVip = (a: Vip, b: Vip): boolean =>
  a.kind === b.kind && a.address === b.address && a.port === b.port

/** Of ServicePorts whose endpoints are the same: then an `ip:port` says it all. */
const sameTarget = (a: Target, b: Target): boolean =>
  a.verdict === b.verdict && sameList(a.endpoints, b.endpoints, samePlace)

const samePlace = (a: Endpoint, b: Endpoint): boolean =>
  a.address === b.address && a.port === b.port

const sameEndpoint = (a: Endpoint, b: Endpoint): boolean =>
  a.port === b.port && a.isDown === b.isDown && sameSpec(a, b)

const sameSpec = (a: EndpointSpec, b: EndpointSpec): boolean =>
  a.address === b.address &&
  a.ready === b.ready &&
  a.serving === b.serving &&
  a.terminating === b.terminating &&
  a.nodeName === b.nodeName &&
  a.zone === b.zone &&
  a.tier === b.tier &&
  a.weight === b.weight &&
  a.cut === b.cut &&
  sameTexts(a.zoneHints, b.zoneHints) &&
  sameTexts(a.nodeHints, b.nodeHints)

const sameSlicePort = (a: SlicePort, b: SlicePort): boolean =>
  a.name === b.name && a.protocol === b.protocol && a.port === b.port

/**
 * Whether two slices put the same endpoints behind the same Service. When that was
 * triggered does not count.
 */
export const sameSlice = (a: EndpointSlice, b: EndpointSlice): boolean =>
  a.serviceName === b.serviceName &&
  a.family === b.family &&
  sameList(a.ports, b.ports, sameSlicePort) &&
  sameList(a.endpoints, b.endpoints, sameSpec)

export const sameHealthCheck = (a: ServiceHealthCheck, b: ServiceHealthCheck): boolean =>
  a.port === b.port && a.localReady === b.localReady
