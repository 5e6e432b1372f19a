import {
  type Cell,
  type Expected,
  type SeenAs,
  isAllowed,
  isHairpin,
  isOnNode,
  refused,
  silence,
} from './oracle-terms.ts'

/**
 * Of kube-proxy's iptables rules. What no rule is for is routed: VIPs are no addresses of
 * anybody's, so it leaves by the default route to the outside host, which does not forward.
 */
export const byIptables = (cell: Cell): Expected => {
  const { service, vip } = cell
  const { backends } = service
  if (vip === 'unknown port') return silence
  if (vip === 'load-balancer IP' && service.byProxy) return silence
  if (backends.length === 0) return refused
  if (isIPv6Loopback(cell)) return onIPv6Loopback(cell)
  if (!isAllowed(cell)) return silence
  const usable = policyOf(cell) === 'Cluster' ? backends : backends.filter(isOnNode)
  return usable.length === 0
    ? silence
    : { result: 'answer', from: usable, as: seenAs(cell) }
}

const isIPv6Loopback = ({ vip, family }: Cell): boolean =>
  vip === 'node port, loopback' && family === 'IPv6'

/** There is no route_localnet for IPv6: nobody listens, or the drop rule is met before. */
const onIPv6Loopback = ({ service: { external, backends } }: Cell): Expected =>
  external === 'Local' && !backends.some(isOnNode) ? silence : refused

/** Who is on the node already gets the endpoints of the cluster. */
const policyOf = ({ service, vip, from }: Cell) => {
  if (vip === 'ClusterIP') return service.internal
  return from === 'outside' ? service.external : 'Cluster'
}

/**
 * The node's own address is an address of the node's, masqueraded or not. What is for the
 * node itself passes no POSTROUTING, and so is never masqueraded.
 */
const seenAs = (cell: Cell): SeenAs => {
  const { service, vip, from } = cell
  if (from === 'node' || isHairpin(cell)) return 'node'
  if (service.backends.includes('node')) return 'client'
  const isPod = from !== 'outside'
  if (vip === 'ClusterIP') return isPod ? 'client' : 'node'
  return service.external === 'Local' ? 'client' : 'node'
}
