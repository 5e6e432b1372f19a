import { listenerId, type Placement, type VipPlacement } from '../capture/capture.ts'
import { isInternal, type ServicePort, type Vip } from '../model/snapshot.ts'

/** How a VIP is served by rules that lead to endpoints. */
export const kernelPlacement = (servicePort: ServicePort): Placement =>
  placed(servicePort, 'kernel', vip => refusedReason(servicePort, vip))

/** The same where it is not served, in any mode; `reason` says why. */
export const unservedPlacement = (servicePort: ServicePort, reason: string): Placement =>
  placed(servicePort, 'not captured', () => reason)

const placed = (
  servicePort: ServicePort,
  capture: VipPlacement['capture'],
  reasonOf: (vip: Vip) => string,
): Placement => ({
  servicePort,
  listenerId: listenerId(servicePort),
  vips: servicePort.vips.map((vip): VipPlacement => {
    return { vip, capture, binds: [], reason: reasonOf(vip) }
  }),
})

/** '' when clients of this VIP are served, from here or from outside. */
const refusedReason = (
  { internal, external, externalFromNode }: ServicePort,
  vip: Vip,
): string => {
  const [target, policy] = isInternal(vip)
    ? ([internal, 'internalTrafficPolicy'] as const)
    : ([external, 'externalTrafficPolicy'] as const)
  if (target.verdict === 'forward') return ''
  if (!isInternal(vip) && externalFromNode.verdict === 'forward') return ''
  return target.verdict === 'drop'
    ? `no local endpoints (${policy}: Local)`
    : 'no endpoints'
}
