import { joinHostPort, type IpFamily } from '../util/ip.ts'
import type { EndpointSlice, EndpointSpec, Protocol } from './service.ts'
import type { Endpoint } from './snapshot.ts'

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
