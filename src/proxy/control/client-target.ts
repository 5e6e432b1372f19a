import { vipGroups } from '../../capture/vip-group.ts'
import type { TrafficPolicy } from '../../model/service.ts'
import { isInternal, type Target } from '../../model/snapshot.ts'
import { NodeClientSet } from '../../relay/node-clients.ts'
import { isAmong, rangesOf } from '../../util/address-ranges.ts'
import { addressWords } from '../../util/cidr.ts'
import type { ControlDeps } from './carry-out.ts'
import type { DialledVip } from './dialled-vip.ts'

/** Which of a ServicePort's targets a client gets, and what decides that. */
export interface ClientTarget {
  readonly target: Target
  readonly policy: TrafficPolicy
  /** `internalTrafficPolicy Cluster`. */
  readonly by: string
  /** It is in none of the source ranges. */
  readonly isOutside: boolean
}

export const clientTarget = (
  { around }: ControlDeps,
  { servicePort, placed: { vip } }: DialledVip,
  client: string,
): ClientTarget => {
  const { internal, external, externalFromNode, sourceRanges } = servicePort
  const { internalTrafficPolicy, externalTrafficPolicy } = servicePort
  if (isInternal(vip)) {
    const by =
      vip.kind === 'Route'
        ? 'a route has no traffic policy'
        : `internalTrafficPolicy ${internalTrafficPolicy}`
    return { target: internal, policy: internalTrafficPolicy, by, isOutside: false }
  }
  const isGuarded = vipGroups(servicePort)[vip.kind] === 'load-balancer'
  const words = addressWords(client) ?? []
  const isOutside =
    isGuarded && sourceRanges !== undefined && !isAmong(rangesOf(sourceRanges), words)
  const onNode = new NodeClientSet()
  onNode.set(around.nodeClients())
  const by = `externalTrafficPolicy ${externalTrafficPolicy}`
  if (externalTrafficPolicy === 'Cluster' || !onNode.has(client))
    return { target: external, policy: externalTrafficPolicy, by, isOutside }
  const spared = `${by}, which spares clients on this node`
  return { target: externalFromNode, policy: 'Cluster', by: spared, isOutside }
}
