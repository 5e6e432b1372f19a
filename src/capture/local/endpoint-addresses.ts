import type { ServicePort } from '../../model/snapshot.ts'
import { forEachYielding } from '../../util/yielding.ts'

/**
 * Which external and load-balancer IPs are the address of some endpoint, too: a pod's, or
 * that of a node with a pod of its network. Made this host's own, such an address could be
 * reached from here no more, by nobody and at no port.
 */
export const endpointAddresses = async (
  servicePorts: readonly ServicePort[],
): Promise<ReadonlySet<string>> => {
  const external = new Set<string>()
  await forEachYielding(servicePorts, ({ vips }) => {
    for (const { kind, address } of vips)
      if (kind === 'ExternalIP' || kind === 'LoadBalancerIP') external.add(address)
  })
  const found = new Set<string>()
  // Most clusters have none, and then endpoints, which are many, are not looked at.
  if (external.size === 0) return found
  await forEachYielding(servicePorts, ({ endpoints }) => {
    for (const { address } of endpoints) if (external.has(address)) found.add(address)
  })
  return found
}
