import type { Claim } from './claim.ts'
import type { EndpointSlice, Service } from './service.ts'
import {
  servicePortName,
  type Endpoint,
  type ServicePort,
  type Target,
  type Vip,
} from './snapshot.ts'
import { mergeSlices } from './slice-merge.ts'
import { eligibleEndpoints } from './topology.ts'

/**
 * The ServicePorts of one Service in both families, from the VIPs it may have (`won`)
 * and the slices that carry its name. A port without a VIP is left out.
 */
export const buildServicePorts = (
  service: Service,
  won: readonly Claim[],
  slices: readonly EndpointSlice[],
): readonly ServicePort[] => {
  const vipsOf = new Map<string, { first: Claim; vips: Vip[] }>()
  for (const claim of won) {
    const group = `${claim.portIndex} ${claim.family}`
    const entry = vipsOf.get(group)
    if (entry === undefined) vipsOf.set(group, { first: claim, vips: [claim.vip] })
    else entry.vips.push(claim.vip)
  }
  return [...vipsOf.values()].flatMap(({ first: { portIndex, family }, vips }) => {
    const port = service.ports[portIndex]
    if (port === undefined) return []
    const { namespace, name: serviceName, affinityMs } = service
    const { name: portName, protocol } = port
    const name = servicePortName(namespace, serviceName, portName)
    const endpoints = mergeSlices(slices, { family, portName, protocol })
    const reachable = eligibleEndpoints(endpoints)
    const target: Target = {
      verdict: reachable.length > 0 ? 'forward' : 'reject',
      endpoints: reachable,
    }
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
      endpoints,
      internal: target,
      external: target,
      externalFromNode: target,
      reachable,
      sourceRanges: undefined,
    }
  })
}

/** Whether two ServicePorts of the same key and family say the same. */
export const sameServicePort = (a: ServicePort, b: ServicePort): boolean =>
  a.affinityMs === b.affinityMs &&
  sameList(a.vips, b.vips, sameVip) &&
  sameList(a.endpoints, b.endpoints, sameEndpoint) &&
  sameList(a.reachable, b.reachable, sameEndpoint)

const sameVip = (a: Vip, b: Vip): boolean =>
  a.kind === b.kind && a.address === b.address && a.port === b.port

const sameEndpoint = (a: Endpoint, b: Endpoint): boolean =>
  a.address === b.address &&
  a.port === b.port &&
  a.ready === b.ready &&
  a.serving === b.serving &&
  a.terminating === b.terminating &&
  a.nodeName === b.nodeName &&
  a.zone === b.zone

const sameList = <T>(
  a: readonly T[],
  b: readonly T[],
  same: (a: T, b: T) => boolean,
): boolean => {
  if (a.length !== b.length) return false
  return a.every((item, index) => {
    const other = b[index]
    return other !== undefined && same(item, other)
  })
}
