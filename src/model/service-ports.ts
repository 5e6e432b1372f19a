import { judgedEndpoints, type Judge } from './checked-endpoints.ts'
import type { Claim } from './claim.ts'
import type { EndpointSlice, Service } from './service.ts'
import { mergeSlices } from './slice-merge.ts'
import {
  type Endpoint,
  isInternal,
  servicePortName,
  type ServicePort,
  type Vip,
} from './snapshot.ts'
import { sourceRangesOf } from './source-ranges.ts'
import { categorizeEndpoints, type Place } from './topology.ts'
import { hasTraffic, trafficOf } from './traffic.ts'

/** What of the own node decides what ServicePorts look like. */
export interface Here extends Place {
  readonly addresses: readonly string[]
}

/**
 * The ServicePorts of one Service in both families, from the VIPs it may have (`won`)
 * and the slices that carry its name. A port without a VIP is left out.
 */
export const buildServicePorts = (
  service: Service,
  won: readonly Claim[],
  slices: readonly EndpointSlice[],
  here: Here,
  judge: Judge,
): readonly ServicePort[] => {
  const vipsOf = new Map<string, { first: Claim; vips: Vip[] }>()
  for (const claim of won) {
    const group = `${claim.portIndex} ${claim.family}`
    const entry = vipsOf.get(group)
    if (entry === undefined) vipsOf.set(group, { first: claim, vips: [claim.vip] })
    else entry.vips.push(claim.vip)
  }
  return [...vipsOf.values()].flatMap(
    ({ first, vips }) => servicePort(first, vips, slices, here, judge) ?? [],
  )
}

const servicePort = (
  { service, portIndex, family }: Claim,
  vips: readonly Vip[],
  slices: readonly EndpointSlice[],
  here: Here,
  judge: Judge,
): ServicePort | undefined => {
  const port = service.ports[portIndex]
  if (port === undefined) return undefined
  const { namespace, name: serviceName, affinityMs } = service
  const { name: portName, protocol } = port
  const name = servicePortName(namespace, serviceName, portName)
  const { onDown, whenAllDown, onBack } = service
  const checks =
    protocol === 'TCP' && onDown !== undefined
      ? { onDown, whenAllDown, onBack }
      : undefined
  const merged = mergeSlices(slices, { family, portName, protocol })
  const listed = weighed(merged, service.balance?.zoneWeights)
  const endpoints = checks === undefined ? listed : judgedEndpoints(listed, checks, judge)
  const { internalTrafficPolicy, externalTrafficPolicy } = service
  const externallyAccessible = !vips.every(isInternal)
  const policies = { internalTrafficPolicy, externalTrafficPolicy }
  const targets = categorizeEndpoints(
    endpoints,
    { ...policies, externallyAccessible },
    here,
  )
  return {
    key: `${name}/${protocol}`,
    name,
    namespace,
    serviceName,
    portName,
    protocol,
    family,
    vips,
    affinityMs,
    ...trafficOf(service, protocol),
    ...(checks !== undefined && { checks }),
    ...(isRelayed(service) && protocol !== 'SCTP' && { relayed: true }),
    endpoints,
    ...policies,
    ...targets,
    sourceRanges: sourceRangesOf(service.sourceRanges, family, vips, here.addresses),
  }
}

/** One Service is carried in one way: its addresses are those of all its ports. */
const isRelayed = (service: Service): boolean =>
  service.relayed === true || service.onDown !== undefined || hasTraffic(service)

const weighed = (
  endpoints: readonly Endpoint[],
  weights: Readonly<Record<string, number>> | undefined,
): readonly Endpoint[] =>
  weights === undefined
    ? endpoints
    : endpoints.map(one =>
        Object.hasOwn(weights, one.zone) ? { ...one, weight: weights[one.zone] } : one,
      )
