import { cidrContains, parseCidr } from '../util/cidr.ts'
import type { IpFamily } from '../util/ip.ts'
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

/**
 * Who may use the load-balancer IPs of one family: `ranges` are a Service's
 * loadBalancerSourceRanges of both. Undefined: all clients, as where there are none or one
 * is the whole family. Where all are of the other family, and not the whole of it, it is
 * no client; kube-proxy lets all in then.
 *
 * When this node may use them, so may a load-balancer IP itself: a packet that the node
 * sends to an address of its own carries it as its source too (kube-proxy's KUBE-FW).
 */
const sourceRangesOf = (
  ranges: readonly string[] | undefined,
  family: IpFamily,
  vips: readonly Vip[],
  ownAddresses: readonly string[],
): readonly string[] | undefined => {
  if (ranges === undefined) return undefined
  const all = ranges.flatMap(text => parseCidr(text) ?? [])
  const cidrs = all.filter(cidr => cidr.family === family)
  // `0.0.0.0/0` alone, on a dual-stack Service, was not written to shut IPv6 out.
  const deciding = cidrs.length > 0 ? cidrs : all
  if (deciding.some(({ prefixLength }) => prefixLength === 0)) return undefined
  const texts = cidrs.map(({ text }) => text)
  const ownIsIn = ownAddresses.some(own => cidrs.some(cidr => cidrContains(cidr, own)))
  if (!ownIsIn) return texts
  const length = family === 'IPv4' ? 32 : 128
  const balancers = vips.filter(({ kind }) => kind === 'LoadBalancerIP')
  return [
    ...new Set([...texts, ...balancers.map(({ address }) => `${address}/${length}`)]),
  ]
}
