import { judgedEndpoints, type Judge } from './checked-endpoints.ts'
import { type Claim, isHealthCheck } from './claim.ts'
import type { EndpointSlice, Service, EndpointSpec, Protocol } from './service.ts'
import {
  type Endpoint,
  isInternal,
  servicePortName,
  type ServicePort,
  type Vip,
  type ServiceHealthCheck,
} from './snapshot.ts'
import { categorizeEndpoints, type Place } from './topology.ts'
import { hasTraffic, trafficOf } from './traffic.ts'
import { joinHostPort, type IpFamily } from '../util/ip.ts'
import { cidrContains, parseCidr } from '../util/cidr.ts'

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

/** What a slice's port must match to serve a ServicePort. */
interface PortSelector {
  readonly family: IpFamily
  /** '' for the unnamed port. */
  readonly portName: string
  readonly protocol: Protocol
}

/**
 * All endpoints that a Service's slices list for one port: each `ip:port` once, in the
 * order of that text. While an endpoint moves between slices, or a pod takes over the
 * address of a terminating one, two slices may disagree about an `ip:port`; then the
 * livelier entry counts, whatever the order of the slices.
 */
export const mergeSlices = (
  slices: Iterable<EndpointSlice>,
  { family, portName, protocol }: PortSelector,
): readonly Endpoint[] => {
  const merged = new Map<string, Endpoint>()
  for (const slice of slices) {
    if (slice.family !== family) continue
    for (const { name, protocol: spoken, port } of slice.ports) {
      if (name !== portName || spoken !== protocol) continue
      for (const endpoint of slice.endpoints) {
        const key = joinHostPort(endpoint.address, port)
        const rival = merged.get(key)
        if (rival === undefined || isLivelier(endpoint, rival)) {
          merged.set(key, endpointOn(endpoint, port))
        }
      }
    }
  }
  // Without a comparing function sorting is done natively.
  return [...merged.keys()].toSorted().flatMap(key => merged.get(key) ?? [])
}

/** Written out: spreading takes many times as long, and there may be 100 000. */
const endpointOn = (spec: EndpointSpec, port: number): Endpoint => {
  const endpoint = plainEndpoint(spec, port)
  const { tier, weight, cut } = spec
  // Those of a cluster have none of them.
  const isPlain = tier === undefined && weight === undefined && cut === undefined
  return isPlain ? endpoint : { ...endpoint, tier, weight, cut }
}

const plainEndpoint = (spec: EndpointSpec, port: number): Endpoint => ({
  address: spec.address,
  port,
  ready: spec.ready,
  serving: spec.serving,
  terminating: spec.terminating,
  nodeName: spec.nodeName,
  zone: spec.zone,
  zoneHints: spec.zoneHints,
  nodeHints: spec.nodeHints,
})

/**
 * kube-proxy lets the later of two entries win unless it is terminating, which leaves
 * two equally live ones to the order of arrival. Here conditions decide, and then node,
 * zone and hints, where the greater text has no meaning but that a known one beats ''.
 */
const isLivelier = (a: EndpointSpec, b: EndpointSpec): boolean => {
  if (a.terminating !== b.terminating) return b.terminating
  if (a.ready !== b.ready) return a.ready
  if (a.serving !== b.serving) return a.serving
  if (a.tier !== b.tier) return (a.tier ?? 0) < (b.tier ?? 0)
  if (a.nodeName !== b.nodeName) return a.nodeName > b.nodeName
  if (a.zone !== b.zone) return a.zone > b.zone
  return hintText(a) > hintText(b)
}

const hintText = ({ zoneHints, nodeHints }: EndpointSpec): string =>
  `${zoneHints.join()} ${nodeHints.join()}`

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

/**
 * What a Service's healthCheckNodePort says in one family, from its ServicePorts of both.
 * Undefined when it has no such port (`won`: what it has of what it claims), or is not there in the
 * family.
 *
 * An endpoint that serves only because it terminates does not count: load balancers are
 * to look elsewhere while what still arrives is served (KEP-1669).
 */
export const healthCheckOf = (
  { namespace, name, healthCheckNodePort }: Service,
  won: readonly Claim[],
  servicePorts: readonly ServicePort[],
  family: IpFamily,
  nodeName: string,
): ServiceHealthCheck | undefined => {
  const isItsOwn = won.some(claim => claim.family === family && isHealthCheck(claim))
  if (!isItsOwn) return undefined
  const ports = servicePorts.filter(port => port.family === family)
  if (ports.length === 0) return undefined
  const local = new Set<string>()
  for (const { endpoints } of ports) {
    for (const endpoint of endpoints) {
      if (!endpoint.ready || nodeName === '') continue
      if (endpoint.nodeName === nodeName) local.add(endpoint.address)
    }
  }
  return {
    namespace,
    serviceName: name,
    port: healthCheckNodePort,
    localReady: local.size,
  }
}
