import type { Placement } from '../capture/capture.ts'
import { sameTarget, type VipGroup, vipGroups } from '../capture/vip-group.ts'
import type { ServicePort, Target } from '../model/snapshot.ts'
import {
  bindKey,
  type Bind,
  type EndpointChoice,
  type RelayFront,
} from '../relay/relay.ts'
import { rangesOf } from '../util/address-ranges.ts'
import { joinHostPort } from '../util/ip.ts'

/** The addresses of a placed ServicePort, together where their clients get the same. */
export const relayFronts = ({ servicePort, vips }: Placement): readonly RelayFront[] => {
  const groups = vipGroups(servicePort)
  const bindsOf = new Map<VipGroup, Map<string, Bind>>()
  const taken = new Set<string>()
  for (const { vip, binds } of vips) {
    const group = groups[vip.kind]
    const found = bindsOf.get(group) ?? new Map<string, Bind>()
    for (const bind of binds) {
      const key = bindKey(bind)
      // VIPs without an address of their own share a proxy port. A node port of UDP may
      // meet another VIP, which goes first as in kube-proxy's rules.
      if (!taken.has(key)) found.set(key, bind)
      taken.add(key)
    }
    if (found.size > 0) bindsOf.set(group, found)
  }
  return Array.from(bindsOf, ([group, binds]) => ({
    binds: [...binds.values()],
    ...rulesOf(servicePort, group),
  }))
}

type Rules = Omit<RelayFront, 'binds'>

const rulesOf = (servicePort: ServicePort, group: VipGroup): Rules => {
  const { internal, external, externalFromNode, sourceRanges } = servicePort
  if (group === 'internal') {
    return {
      endpoints: choiceOf(servicePort, internal),
      endpointsFromNode: undefined,
      allowedClients: undefined,
      closedReason: reasonOf(internal, 'internalTrafficPolicy'),
    }
  }
  const ranges = group === 'load-balancer' ? sourceRanges : undefined
  return {
    endpoints: choiceOf(servicePort, external),
    endpointsFromNode: sameTarget(external, externalFromNode)
      ? undefined
      : choiceOf(servicePort, externalFromNode),
    allowedClients: ranges && rangesOf(ranges),
    closedReason:
      ranges?.length === 0
        ? `no ${servicePort.family} range in loadBalancerSourceRanges`
        : reasonOf(external, 'externalTrafficPolicy'),
  }
}

const choiceOf = ({ reachable }: ServicePort, { endpoints }: Target): EndpointChoice =>
  endpoints.length === reachable.length
    ? 'all'
    : endpoints.map(({ address, port }) => joinHostPort(address, port))

const reasonOf = ({ verdict }: Target, policy: string): string =>
  verdict === 'drop' ? `no local endpoints (${policy}: Local)` : 'no endpoints'
