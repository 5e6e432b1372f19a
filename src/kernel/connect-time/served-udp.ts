import { keepsFlows } from '../../model/service.ts'
import type { ServicePort } from '../../model/snapshot.ts'
import { listDiff } from '../../util/list-diff.ts'
import { addressOf, dialledAddresses, type NodePorts } from './addresses.ts'

/** By VIP, the endpoints at which its clients may stay; both as in the table `reverse`. */
export type ServedUdp = ReadonlyMap<string, ReadonlySet<string>>

/**
 * VIPs of the UDP ServicePorts of `after` that are not the same objects in `before`. Pure. As in
 * kube-proxy, those that are gone keep their flows, and so do those of which nothing serves: they
 * are left out. Endpoints that end still serve, as long as they say so.
 */
export const servedUdp = (
  before: readonly ServicePort[],
  after: readonly ServicePort[],
  nodePorts: NodePorts,
): ServedUdp => {
  const served = new Map<string, ReadonlySet<string>>()
  const changed = listDiff(before, after)
  // What lies in both lists has only moved.
  const known = new Set(changed.before)
  for (const one of changed.after) {
    const { protocol, family, vips, endpoints } = one
    if (protocol !== 'UDP' || known.has(one)) continue
    const to = endpoints.filter(keepsFlows)
    if (to.length === 0) continue
    const stay = new Set(to.map(({ address, port }) => addressOf(address, port, 'UDP')))
    for (const vip of vips)
      for (const at of dialledAddresses(vip, family, nodePorts))
        served.set(addressOf(at, vip.port, 'UDP'), stay)
  }
  return served
}
