import type { Endpoint, ServicePort, Target, Vip, VipKind } from '../../model/snapshot.ts'
import { serviceChainNames, type ServiceChainNames } from './names.ts'

export type ServiceVipKind = Exclude<VipKind, 'Route'>

/** A ServicePort as its rules see it. */
export interface Service {
  readonly servicePort: ServicePort
  /** In comments. */
  readonly title: string
  /** `tcp`, `udp`. */
  readonly protocol: string
  readonly names: ServiceChainNames
  readonly vips: Readonly<Record<ServiceVipKind, readonly Vip[]>>
  /** Where external addresses lead; undefined when there are only ClusterIPs. */
  readonly external: Target | undefined
  /** Some endpoint somewhere can be expected to answer. */
  readonly hasEndpoints: boolean
  /** Only some may use the load-balancer IPs, and there is something to use. */
  readonly hasFirewall: boolean
  /** For traffic policy Cluster; empty where nothing asks for it. */
  readonly clusterEndpoints: readonly Endpoint[]
  /** The same for Local. */
  readonly localEndpoints: readonly Endpoint[]
}

export const serviceOf = (servicePort: ServicePort): Service => {
  const { name, internal, externalFromNode, sourceRanges } = servicePort
  const protocol = servicePort.protocol.toLowerCase()
  const vips = byKind(servicePort.vips)
  const isExternal = servicePort.vips.some(({ kind }) => kind !== 'ClusterIP')
  const hasEndpoints =
    internal.verdict !== 'reject' || (isExternal && externalFromNode.verdict !== 'reject')
  return {
    servicePort,
    title: safe(name),
    protocol,
    names: serviceChainNames(name, protocol),
    vips,
    external: isExternal ? servicePort.external : undefined,
    hasEndpoints,
    hasFirewall:
      sourceRanges !== undefined && vips.LoadBalancerIP.length > 0 && hasEndpoints,
    ...endpointSets(servicePort, isExternal),
  }
}

const byKind = (vips: readonly Vip[]): Service['vips'] => {
  const of = (kind: ServiceVipKind): readonly Vip[] =>
    vips.filter(vip => vip.kind === kind)
  return {
    ClusterIP: of('ClusterIP'),
    ExternalIP: of('ExternalIP'),
    LoadBalancerIP: of('LoadBalancerIP'),
    NodePort: of('NodePort'),
  }
}

/**
 * For a comment: one line and no quotes, whatever it was. Of all that Kubernetes allows
 * (three names of 63 characters), the longest comment has 250; the kernel takes 255
 * (XT_MAX_COMMENT_LEN), and iptables would refuse all rules for a longer one.
 */
export const safe = (name: string): string =>
  name.slice(0, longestName).replaceAll(/[^\w./:-]/g, '_')
const longestName = 3 * 63 + 2

/** Of a target that does not forward, the endpoints are none. */
const endpointSets = (
  servicePort: ServicePort,
  isExternal: boolean,
): Pick<Service, 'clusterEndpoints' | 'localEndpoints'> => {
  const { internal, external, externalFromNode } = servicePort
  const isLocalInside = servicePort.internalTrafficPolicy === 'Local'
  const isLocalOutside = isExternal && servicePort.externalTrafficPolicy === 'Local'
  const cluster = isExternal ? externalFromNode : isLocalInside ? undefined : internal
  const local = isLocalInside ? internal : isLocalOutside ? external : undefined
  return {
    clusterEndpoints: cluster?.endpoints ?? [],
    localEndpoints: local?.endpoints ?? [],
  }
}

export const comment = (text: string): string => `-m comment --comment "${text}"`

/** `-m tcp -p tcp`; `-m` comes first with kube-proxy. */
export const protocolMatch = ({ protocol }: Service): string =>
  `-m ${protocol} -p ${protocol}`

export const vipMatch = (service: Service, { address, port }: Vip): string =>
  `${protocolMatch(service)} -d ${address} --dport ${port}`
