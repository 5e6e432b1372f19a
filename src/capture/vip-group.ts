import type { ServicePort, Target, VipKind } from '../model/snapshot.ts'

/**
 * VIPs of one ServicePort whose clients get the same. `internal`: ClusterIPs, and all
 * others that no policy or source range tells apart from them.
 */
export type VipGroup = 'internal' | 'external' | 'load-balancer'

export const vipGroupNames: readonly VipGroup[] = [
  'internal',
  'external',
  'load-balancer',
]

/** The groups a VIP may ever be in, the narrowest first. */
export const possibleGroups: Readonly<Record<VipKind, readonly VipGroup[]>> = {
  ClusterIP: ['internal'],
  Route: ['internal'],
  ExternalIP: ['external', 'internal'],
  NodePort: ['external', 'internal'],
  LoadBalancerIP: ['load-balancer', 'external', 'internal'],
}

/**
 * In which group each kind of VIP is now. Source ranges are for load-balancer IPs alone;
 * kube-proxy too leaves node ports out of them.
 */
export const vipGroups = (
  servicePort: ServicePort,
): Readonly<Record<VipKind, VipGroup>> => {
  const { internal, external, externalFromNode, sourceRanges } = servicePort
  const alike = sameTarget(external, internal) && sameTarget(externalFromNode, internal)
  const outside = alike ? 'internal' : 'external'
  return {
    ClusterIP: 'internal',
    Route: 'internal',
    ExternalIP: outside,
    NodePort: outside,
    LoadBalancerIP: sourceRanges === undefined ? outside : 'load-balancer',
  }
}

/** Targets hold a ServicePort's own endpoint objects, all in one order. */
export const sameTarget = (a: Target, b: Target): boolean =>
  a === b ||
  (a.verdict === b.verdict &&
    a.endpoints.length === b.endpoints.length &&
    a.endpoints.every((endpoint, index) => endpoint === b.endpoints[index]))
