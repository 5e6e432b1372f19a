import type { Service, ServicePortSpec, TrafficPolicy } from '../../model/service.ts'
import { familyOf } from '../../util/ip.ts'
import { decoderOf } from './decode-object.ts'
import { canonicalCidrs, cidrFaults } from './object-ip.ts'
import { addressFault, canonicalAll } from './fields.ts'
import { labels, type Metadata } from './metadata.ts'
import { peek } from '../../util/json.ts'
import type { Fault } from './problem.ts'
import { readAnnotations } from './service-annotations.ts'
import { portFaults, shape, type Body } from './service-shape.ts'

/** The API server's own default, three hours. */
const defaultAffinitySeconds = 10_800

/** `createdAt` of a Service without a creation time, as only manifests have them. */
export const undated = Number.MAX_SAFE_INTEGER

/** A v1 Service. Headless ones, ExternalName and those that another proxy serves are ignored. */
export const decodeService = decoderOf({
  kind: 'Service',
  namespaced: true,
  ignored: (metadata, raw) => whyIgnored(metadata, peek(raw, 'spec')),
  shape,
  faults: ({ spec, status }) => [
    ...clusterIPFaults(spec),
    ...portFaults(spec.ports ?? []),
    ...ingressFaults(status),
  ],
  leftOut: ({ spec }, { annotations }) => [
    ...readAnnotations(annotations, protocolsOf(spec)).faults,
    ...cidrFaults('spec.loadBalancerSourceRanges', spec.loadBalancerSourceRanges ?? []),
  ],
  changes: (body, metadata) => {
    const { namespace, name } = metadata
    return [{ kind: 'Service', namespace, name, object: serviceOf(body, metadata) }]
  },
})

const whyIgnored = (metadata: Metadata, spec: unknown): string => {
  if (metadata.label(labels.proxyName) !== undefined)
    return `the label ${labels.proxyName} leaves it to another proxy`
  if (peek(spec, 'type') === 'ExternalName') return 'type ExternalName has no address'
  const given = peek(spec, 'clusterIPs')
  const first: unknown =
    Array.isArray(given) && given.length > 0 ? given[0] : peek(spec, 'clusterIP')
  return first === 'None' || first === '' ? 'it is headless' : ''
}

// The API server gives every Service one; a file that leaves it out is half a file.
const noClusterIP =
  'is missing; give the address that clients dial, or None for a headless Service'

const clusterIPsOf = ({ clusterIPs, clusterIP }: Body['spec']): readonly string[] =>
  clusterIPs && clusterIPs.length > 0 ? clusterIPs : clusterIP ? [clusterIP] : []

const clusterIPFaults = (spec: Body['spec']): Fault[] => {
  const given = clusterIPsOf(spec)
  if (given.length === 0) return [{ field: 'spec.clusterIP', message: noClusterIP }]
  const families = canonicalAll(given).map(familyOf)
  const twice = families.find((family, i) => family && families.indexOf(family) !== i)
  if (twice === undefined) return []
  const message = `holds more than one ${twice} address; give one of each family at most`
  return [{ field: 'spec.clusterIPs', message }]
}

type Ingress = { readonly index: number; readonly ip: string }

/** The ingress addresses traffic arrives for unchanged: ipMode VIP or absent (KEP-1860). */
const vipIngress = (status: Body['status']): Ingress[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }, index) =>
    ip && (ipMode ?? 'VIP') === 'VIP' ? [{ index, ip }] : [],
  )

const ingressFaults = (status: Body['status']): Fault[] =>
  vipIngress(status).flatMap(({ index, ip }) => {
    const message = addressFault(ip)
    const field = `status.loadBalancer.ingress[${index}].ip`
    return message === '' ? [] : [{ field, message }]
  })

const serviceOf = (
  { spec, status }: Body,
  { namespace, name, uid, createdAt = undated, annotations }: Metadata,
): Service => ({
  namespace,
  name,
  ...(uid !== '' && { uid }),
  createdAt,
  clusterIPs: canonicalAll(clusterIPsOf(spec)),
  externalIPs: canonicalAll(spec.externalIPs ?? []),
  loadBalancerIPs: canonicalAll(vipIngress(status).map(({ ip }) => ip)),
  ports: portsOf(spec),
  affinityMs: affinityMs(spec),
  ...readAnnotations(annotations).options,
  internalTrafficPolicy: spec.internalTrafficPolicy,
  externalTrafficPolicy: externalPolicy(spec),
  sourceRanges: sourceRanges(spec),
  healthCheckNodePort:
    spec.type === 'LoadBalancer' && externalPolicy(spec) === 'Local'
      ? spec.healthCheckNodePort
      : 0,
})

const protocolsOf = ({ ports }: Body['spec']) => (ports ?? []).map(one => one.protocol)

const portsOf = ({ ports }: Body['spec']): readonly ServicePortSpec[] =>
  (ports ?? []).map(({ name, protocol, port, nodePort }) => ({
    name,
    protocol,
    port,
    nodePort,
  }))

/** Only a Service that can be reached from outside has one. */
const externalPolicy = (spec: Body['spec']): TrafficPolicy => {
  const { type, externalIPs, externalTrafficPolicy } = spec
  const accessible =
    type === 'LoadBalancer' || type === 'NodePort' || (externalIPs ?? []).length > 0
  return accessible ? externalTrafficPolicy : 'Cluster'
}

/** Ranges of which none is sound let no client in, rather than all. */
const sourceRanges = (spec: Body['spec']): readonly string[] | undefined => {
  const given = spec.loadBalancerSourceRanges ?? []
  return given.length === 0 ? undefined : canonicalCidrs(given)
}

const affinityMs = ({ sessionAffinity, sessionAffinityConfig }: Body['spec']): number =>
  sessionAffinity === 'ClientIP'
    ? (sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds) * 1000
    : 0
