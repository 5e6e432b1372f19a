import type { ServicePort } from '../../model/snapshot.ts'
import type { Chain } from '../xtables/wanted.ts'
import type { Context } from './context.ts'
import { endpointChains } from './endpoint-chains.ts'
import { type PortalRules, portalRules } from './portal-rules.ts'
import { comment, type Service, serviceOf } from './service.ts'
import { named } from '../xtables/kube-chains.ts'

/** All rules of one ServicePort. */
export interface ServiceRules extends PortalRules {
  /** Its own chains, in nat; each before those it leads to. */
  readonly chains: readonly Chain[]
}

/** As kube-proxy 1.36 has them. A pure function. */
export const serviceRules = (
  servicePort: ServicePort,
  context: Context,
): ServiceRules => {
  const service = serviceOf(servicePort)
  return {
    ...portalRules(service, context),
    chains: [
      ...firewallChain(service),
      ...externalChain(service, context),
      ...endpointChains(service, context),
    ],
  }
}

/**
 * KUBE-EXT-: what comes to external addresses. Policy Local keeps the client's address,
 * but pods of this node and the node itself are spared the policy, as if their packets
 * had gone to the load balancer and come back; the node's own need masquerading then,
 * because the load balancer's address may be local and so be their source.
 */
const externalChain = (service: Service, { ifLocal }: Context): readonly Chain[] => {
  const { title, names, servicePort, external, hasEndpoints } = service
  if (external === undefined || !hasEndpoints) return []
  const about = (before: string): string =>
    comment(`${before} for ${title} external destinations`)
  const fromHost = '-m addrtype --src-type LOCAL'
  const isLocal = servicePort.externalTrafficPolicy === 'Local'
  const toPolicy = `-j ${isLocal ? names.local : names.cluster}`
  const spared = isLocal
    ? [
        ...ifLocal.map(match => `${about('pod traffic')} ${match} -j ${names.cluster}`),
        `${about('masquerade LOCAL traffic')} ${fromHost} -j ${named.markMasq}`,
        `${about('route LOCAL traffic')} ${fromHost} -j ${names.cluster}`,
      ]
    : [`${about('masquerade traffic')} -j ${named.markMasq}`]
  const rest = external.verdict === 'forward' ? [toPolicy] : []
  return [{ name: names.external, lines: [...spared, ...rest] }]
}

/**
 * KUBE-FW-: who may use the load-balancer IPs. Where this node may, the snapshot's ranges
 * have those addresses too: a packet of the node's own to one carries it as its source.
 */
const firewallChain = (service: Service): readonly Chain[] => {
  if (!service.hasFirewall) return []
  const { title, names, servicePort } = service
  const why = comment(`${title} loadbalancer IP`)
  const last = `other traffic to ${title} will be dropped by ${named.proxyFirewall}`
  const ranges = servicePort.sourceRanges ?? []
  const lines = ranges.map(range => `${why} -s ${range} -j ${names.external}`)
  return [{ name: names.firewall, lines: [...lines, comment(last)] }]
}
