import type { ServicePort, Vip } from '../../model/snapshot.ts'
import { vipGroups } from '../vip-group.ts'

/**
 * What a socket can't do for clients of such a VIP, where packet filters can; '' when it is
 * nothing. Who must not be answered is refused or reset: the kernel has done the handshake
 * before anybody is asked.
 */
export const localLimits = (servicePort: ServicePort, kind: Vip['kind']): string => {
  const { internal, external, protocol, sourceRanges } = servicePort
  const group = vipGroups(servicePort)[kind]
  const target = group === 'internal' ? internal : external
  if (target.verdict === 'drop') {
    return 'no endpoint on this node, and the policy is Local: clients are refused, as silence needs rules of the kernel'
  }
  if (group === 'load-balancer' && sourceRanges !== undefined && protocol === 'TCP') {
    return 'clients outside of loadBalancerSourceRanges are reset once connected, as silence needs rules of the kernel'
  }
  return ''
}
