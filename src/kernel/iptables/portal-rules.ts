import type { Target, Vip } from '../../model/snapshot.ts'
import type { Context } from './context.ts'
import {
  comment,
  protocolMatch,
  type Service,
  type ServiceVipKind,
  vipMatch,
} from './service.ts'
import { counters } from './features.ts'

/** The lines of one ServicePort in the chains that all of them share. */
export interface PortalRules {
  /** filter KUBE-SERVICES. */
  readonly refused: readonly string[]
  /** filter KUBE-EXTERNAL-SERVICES. */
  readonly refusedOutside: readonly string[]
  /** filter KUBE-PROXY-FIREWALL. */
  readonly firewall: readonly string[]
  /** nat KUBE-SERVICES. */
  readonly portals: readonly string[]
  /** nat KUBE-NODEPORTS. */
  readonly nodePorts: readonly string[]
}

export const portalRules = (service: Service, context: Context): PortalRules => ({
  refused: refusedVips(service, service.vips.ClusterIP, service.servicePort.internal),
  refusedOutside: refusedOutside(service),
  firewall: firewall(service),
  portals: portals(service),
  nodePorts: nodePorts(service, context),
})

const refusedVips = (
  service: Service,
  vips: readonly Vip[],
  target: Target,
): readonly string[] => {
  const refusal = refusalOf(service, target)
  if (refusal === undefined) return []
  const [why, verdict] = refusal
  return vips.map(vip => `${why} ${vipMatch(service, vip)} -j ${verdict}`)
}

const refusalOf = (
  { title }: Service,
  { verdict }: Target,
): readonly [why: string, verdict: string] | undefined => {
  if (verdict === 'forward') return undefined
  return verdict === 'reject'
    ? [comment(`${title} has no endpoints`), 'REJECT']
    : [comment(`${title} has no local endpoints`), 'DROP']
}

/** Packets that nat has led to an endpoint don't come by here: their address is another. */
const refusedOutside = (service: Service): readonly string[] => {
  const { external, vips } = service
  const refusal = external && refusalOf(service, external)
  if (external === undefined || refusal === undefined) return []
  const [why, verdict] = refusal
  const local = `${why} -m addrtype --dst-type LOCAL ${protocolMatch(service)}`
  return [
    ...refusedVips(service, [...vips.ExternalIP, ...vips.LoadBalancerIP], external),
    ...vips.NodePort.map(({ port }) => `${local} --dport ${port} -j ${verdict}`),
  ]
}

/** What the firewall chain has not led on still has the address it was sent to. */
const firewall = (service: Service): readonly string[] => {
  if (!service.hasFirewall) return []
  const { title, names, vips } = service
  const why = comment(`${title} traffic not accepted by ${names.firewall}`)
  return vips.LoadBalancerIP.map(vip => `${why} ${vipMatch(service, vip)} -j DROP`)
}

const portals = (service: Service): readonly string[] => {
  const { title, names, vips, servicePort, hasEndpoints, hasFirewall } = service
  if (!hasEndpoints) return []
  const lines = (
    kind: ServiceVipKind,
    words: string,
    chain: string,
  ): readonly string[] => {
    const why = comment(`${title} ${words}`)
    return vips[kind].map(vip => `${why} ${vipMatch(service, vip)} -j ${chain}`)
  }
  const inside =
    servicePort.internalTrafficPolicy === 'Local' ? names.local : names.cluster
  return [
    ...(servicePort.internal.verdict === 'forward'
      ? lines('ClusterIP', 'cluster IP', inside)
      : []),
    ...lines('ExternalIP', 'external IP', names.external),
    ...lines(
      'LoadBalancerIP',
      'loadbalancer IP',
      hasFirewall ? names.firewall : names.external,
    ),
  ]
}

/** loadBalancerSourceRanges are not about node ports. */
const nodePorts = (service: Service, { countsLocalhost }: Context): readonly string[] => {
  const { title, names, vips, hasEndpoints } = service
  if (!hasEndpoints) return []
  const why = `-m comment --comment ${title} ${protocolMatch(service)}`
  const counter = `-m nfacct --nfacct-name ${counters.localhostNodePorts}`
  return vips.NodePort.flatMap(({ port }) => {
    const line = `${why} --dport ${port} -j ${names.external}`
    if (!countsLocalhost) return [line]
    const counted = `${why} -d 127.0.0.0/8 --dport ${port} ${counter} -j ${names.external}`
    return [counted, line]
  })
}
