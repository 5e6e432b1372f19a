import {
  type Cell,
  type Expected,
  isAllowed,
  isHairpin,
  isOnNode,
  refused,
  type SeenAs,
  silence,
} from './oracle-terms.ts'
import type { BackendName } from '../../support/net/addresses.ts'

/**
 * Of virtual servers. VIPs are addresses of the node's here, so that it refuses by itself
 * what is no port of theirs; and a virtual server has one list of endpoints for everybody.
 */
export const byIpvs = (cell: Cell): Expected => {
  const { service, vip } = cell
  if (vip === 'unknown port') return refused
  // Not bound, and so routed, to the outside host, which does not forward.
  if (vip === 'load-balancer IP' && service.byProxy) return silence
  // No virtual server has an address of loopback (kube-proxy binds none there).
  if (vip === 'node port, loopback') return refused
  if (!isAllowed(cell)) return silence
  // A virtual server without destinations answers that the port is unreachable.
  if (service.backends.length === 0) return refused
  const usable = endpointsFor(cell)
  return usable.length === 0
    ? silence
    : { result: 'answer', from: usable, as: seenAs(cell) }
}

/**
 * Who is on the node gets the endpoints of the cluster only where the node has none: with
 * one list for everybody, kube-proxy's ipvs mode has no other way to spare outside clients
 * of a local policy the endpoints elsewhere.
 */
const endpointsFor = ({ service, vip, from }: Cell): readonly BackendName[] => {
  const { backends, internal, external } = service
  const local = backends.filter(isOnNode)
  if (vip === 'ClusterIP') return internal === 'Cluster' ? backends : local
  if (external === 'Cluster') return backends
  return local.length > 0 || from === 'outside' ? local : backends
}

/** What is for the node itself passes no POSTROUTING, and so is never masqueraded. */
const seenAs = (cell: Cell): SeenAs => {
  const { service, vip, from } = cell
  // It dials VIPs from themselves, as any local address, and so is always masqueraded.
  if (from === 'node' || isHairpin(cell)) return 'node'
  if (service.backends.includes('node')) return 'client'
  if (vip === 'ClusterIP') return from === 'outside' ? 'node' : 'client'
  return service.external === 'Local' ? 'client' : 'node'
}
