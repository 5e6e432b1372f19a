import type { Service, ServicePortSpec, TrafficPolicy } from '../../model/service.ts'
import { familyOf } from '../../util/ip.ts'
import { decoderOf } from './decode-object.ts'
import { canonicalCidrs, cidrFaults, familyFaults, objectIp } from './object-ip.ts'
import {
  addressFault,
  canonicalAll,
  address,
  affinitySeconds,
  nodePort,
  object,
  port,
  portName,
  protocol,
  text,
} from './fields.ts'
import { present, decisive, parts } from './part.ts'
import { specialAddressFaults } from './endpoint-slice.ts'
import { labels, type Metadata } from './metadata.ts'
import { show, printable, peek } from '../../util/printable.ts'
import { type Fault, faultIf } from './problem.ts'
import { readAnnotations } from './service-annotations.ts'
import * as v from 'valibot'

const types = ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'] as const
const policies = ['Cluster', 'Local'] as const
const affinities = ['None', 'ClientIP'] as const

/** A value that a later Kubernetes may have is as good as none: the API's own default. */
const oneOf = <const T extends readonly string[]>(values: T, otherwise: T[number]) =>
  v.nullish(
    v.picklist(
      values,
      ({ input }) =>
        `${show(input)} is not one of ${values.join(', ')}; it is taken for ${otherwise}`,
    ),
  )

const ipMode = v.picklist(
  ['VIP', 'Proxy'],
  ({ input }) =>
    `${show(input)} is not VIP or Proxy; the address is left to the load balancer`,
)

/** What Usher reads of a v1 Service; all other fields may be anything. */
const shape = object({
  spec: object({
    type: oneOf(types, 'ClusterIP'),
    clusterIP: v.nullish(address),
    clusterIPs: v.nullish(parts(address)),
    externalIPs: v.nullish(parts(address)),
    ports: v.nullish(
      parts(
        object({
          name: decisive(portName, ''),
          protocol: decisive(protocol, 'TCP'),
          port,
          nodePort: v.nullish(nodePort, 0),
        }),
      ),
    ),
    sessionAffinity: oneOf(affinities, 'None'),
    internalTrafficPolicy: oneOf(policies, 'Cluster'),
    externalTrafficPolicy: oneOf(policies, 'Cluster'),
    /** Looked at apart: without them, or with none that is sound, the Service would be open to all. */
    loadBalancerSourceRanges: v.optional(v.unknown()),
    healthCheckNodePort: v.nullish(nodePort, 0),
    sessionAffinityConfig: v.nullish(
      object({
        clientIP: v.nullish(object({ timeoutSeconds: v.nullish(affinitySeconds) })),
      }),
    ),
  }),
  status: v.nullish(
    object({
      loadBalancer: v.nullish(
        object({
          ingress: v.nullish(
            parts(object({ ip: v.nullish(text), ipMode: v.nullish(ipMode) })),
          ),
        }),
      ),
    }),
  ),
})

type Body = v.InferOutput<typeof shape>
type RawPort = NonNullable<NonNullable<Body['spec']['ports']>[number]>

/**
 * Ports with the same name, or the same number and protocol, as an earlier one. The first of
 * several without a name is served; see `unnamedPorts`.
 */
const portFaults = (ports: readonly (RawPort | undefined)[]): Fault[] => {
  if (ports.length === 0)
    return [{ field: 'spec.ports', message: 'is empty; a Service needs a port' }]
  const faults: Fault[] = []
  const taken = new Map<string, string>()
  const claim = (field: string, what: string) => {
    const holder = taken.get(what)
    if (holder === undefined) taken.set(what, field)
    else faults.push({ field, message: `${what} is taken by ${holder}` })
  }
  for (const [i, one] of ports.entries()) {
    if (one === undefined) continue
    const field = `spec.ports[${i}]`
    const carried = printable(one.protocol)
    if (one.name !== '') claim(`${field}.name`, `the name ${show(one.name)}`)
    claim(`${field}.port`, `${carried} port ${one.port}`)
    if (one.nodePort !== 0)
      claim(`${field}.nodePort`, `${carried} node port ${one.nodePort}`)
  }
  const [, ...unnamed] = unnamedPorts(ports)
  return [...faults, ...unnamed]
}

/** Of several ports each needs a name. */
const unnamedPorts = (ports: readonly (RawPort | undefined)[]): Fault[] =>
  ports.length < 2
    ? []
    : ports.flatMap((one, i) => {
        const message = 'is missing; with several ports each needs a name'
        return one?.name === '' ? { field: `spec.ports[${i}].name`, message } : []
      })

/** The API server's own default, three hours. */
const defaultAffinitySeconds = 10_800

/** `createdAt` of a Service without a creation time, as only manifests have them. */
export const undated = Number.MAX_SAFE_INTEGER

/** A v1 Service. Headless ones, ExternalName and those that another proxy serves are ignored. */
export const decodeService = decoderOf({
  kind: 'Service',
  namespaced: true,
  ignored: (metadata, raw) => ignoredReason(metadata, peek(raw, 'spec')),
  shape,
  faults: ({ spec, status }) => [
    ...clusterIPFaults(spec),
    ...portFaults(spec.ports ?? []),
    ...ingressFaults(status),
  ],
  leftOut: ({ spec }, { annotations }) => [
    ...readAnnotations(annotations, protocolsOf(spec)).faults,
    ...rangeFaults(spec.loadBalancerSourceRanges),
    ...unnamedPorts(spec.ports ?? []).slice(0, 1),
  ],
  // An API server refuses these external IPs (ValidateNonSpecialIP); of ingress it looks at the form alone.
  invalid: ({ spec, status }) => [
    ...(spec.externalIPs ?? []).flatMap((ip, i) =>
      specialAddressFaults(`spec.externalIPs[${i}]`, ip, 'a load balancer'),
    ),
    ...vipIngress(status).flatMap(({ index, ip }) =>
      specialAddressFaults(ingressField(index), ip, 'a load balancer'),
    ),
  ],
  unread: ({ spec }) =>
    clusterIPsOf(spec).length === 0 || present(spec.ports).length === 0,
  changes: (body, metadata) => {
    const { namespace, name } = metadata
    return [{ kind: 'Service', namespace, name, object: serviceOf(body, metadata) }]
  },
})

const ignoredReason = (metadata: Metadata, spec: unknown): string => {
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

const clusterIPsOf = ({ clusterIPs, clusterIP }: Body['spec']): readonly string[] => {
  const all = present(clusterIPs)
  return all.length > 0 || !clusterIP ? all : [clusterIP]
}

const clusterIPFaults = (spec: Body['spec']): Fault[] => {
  // Where what was given was left out that has been reported.
  const isGiven = spec.clusterIP || (spec.clusterIPs ?? []).length > 0
  if (!isGiven) return [{ field: 'spec.clusterIP', message: noClusterIP }]
  const families = (spec.clusterIPs ?? []).map(one => familyOf(objectIp(one ?? '') ?? ''))
  return familyFaults('spec.clusterIPs', families, 'address')
}

type Ingress = { readonly index: number; readonly ip: string }

/** The ingress addresses traffic arrives for unchanged: ipMode VIP or absent (KEP-1860). */
const vipIngress = (status: Body['status']): Ingress[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap((one, index) =>
    one?.ip && (one.ipMode ?? 'VIP') === 'VIP' ? [{ index, ip: one.ip }] : [],
  )

const ingressFaults = (status: Body['status']): Fault[] =>
  vipIngress(status).flatMap(({ index, ip }) =>
    faultIf(ingressField(index), addressFault(ip)),
  )

const ingressField = (index: number): string => `status.loadBalancer.ingress[${index}].ip`

const serviceOf = (
  body: Body,
  { namespace, name, uid, createdAt = undated, annotations }: Metadata,
): Service => {
  const { spec, status } = body
  const externalTrafficPolicy = externalPolicy(body)
  return {
    namespace,
    name,
    ...(uid !== '' && { uid }),
    createdAt,
    clusterIPs: canonicalAll(clusterIPsOf(spec)),
    externalIPs: canonicalAll(present(spec.externalIPs)),
    loadBalancerIPs: canonicalAll(vipIngress(status).map(({ ip }) => ip)),
    ports: portsOf(spec),
    affinityMs: affinityMs(spec),
    ...readAnnotations(annotations).options,
    internalTrafficPolicy: spec.internalTrafficPolicy ?? 'Cluster',
    externalTrafficPolicy,
    sourceRanges: sourceRanges(spec),
    healthCheckNodePort:
      spec.type === 'LoadBalancer' && externalTrafficPolicy === 'Local'
        ? spec.healthCheckNodePort
        : 0,
  }
}

/** None where that of a port is not known. */
const protocolsOf = ({ ports }: Body['spec']) =>
  ports?.includes(undefined) ? [] : present(ports).map(one => one.protocol)

const portsOf = ({ ports }: Body['spec']): readonly ServicePortSpec[] =>
  present(ports).map(one => ({
    name: one.name,
    protocol: one.protocol,
    port: one.port,
    nodePort: one.nodePort,
  }))

/** Only a Service that can be reached from outside has one, whatever its type is called. */
const externalPolicy = ({ spec, status }: Body): TrafficPolicy => {
  const { type, externalIPs, externalTrafficPolicy, ports } = spec
  const accessible =
    type === 'LoadBalancer' ||
    type === 'NodePort' ||
    present(externalIPs).length > 0 ||
    vipIngress(status).length > 0 ||
    present(ports).some(one => one.nodePort !== 0)
  return (accessible && externalTrafficPolicy) || 'Cluster'
}

/** Ranges of which none is sound let no client in, rather than all. */
const sourceRanges = ({
  loadBalancerSourceRanges: given,
}: Body['spec']): readonly string[] | undefined => {
  if (given === undefined || given === null) return undefined
  if (!Array.isArray(given)) return []
  return given.length === 0 ? undefined : canonicalCidrs(given)
}

const rangeFaults = (given: unknown): Fault[] => {
  const field = 'spec.loadBalancerSourceRanges'
  if (Array.isArray(given)) return cidrFaults(field, given)
  if (given === undefined || given === null) return []
  return [{ field, message: `${show(given)} is not a list; no client is admitted` }]
}

const affinityMs = ({ sessionAffinity, sessionAffinityConfig }: Body['spec']): number =>
  sessionAffinity === 'ClientIP'
    ? (sessionAffinityConfig?.clientIP?.timeoutSeconds ?? defaultAffinitySeconds) * 1000
    : 0
