import type { EndpointSpec, TrafficPolicy } from './service.ts'
import type { Endpoint, Target } from './snapshot.ts'

/** What of a ServicePort decides who may get its clients. */
export interface Policies {
  readonly internalTrafficPolicy: TrafficPolicy
  readonly externalTrafficPolicy: TrafficPolicy
  /** It has a VIP that is not a ClusterIP: only then the external policy means something. */
  readonly externallyAccessible: boolean
}

/** Where this proxy runs. */
export interface Place {
  /** With '' no endpoint is local, and no hint names this node. */
  readonly nodeName: string
  /** Of this node; '' when unknown, and then no hint names it. */
  readonly zone: string
}

/** The part of a ServicePort that says where its clients go. */
export interface Targets {
  readonly internal: Target
  readonly external: Target
  readonly externalFromNode: Target
  readonly reachable: readonly Endpoint[]
}

const reject: Target = { verdict: 'reject', endpoints: [] }
const drop: Target = { verdict: 'drop', endpoints: [] }

/**
 * Which of a ServicePort's endpoints may get new connections now, by where the client
 * comes from. kube-proxy 1.36 calls it CategorizeEndpoints.
 *
 * Contract: a pure function of its arguments. Every list is a part of `endpoints`, the
 * same objects in the same order.
 *
 * - The cluster set: the ready ones that the hints allow (see `hintFilter`). When none is
 *   ready anywhere, those that still serve while they terminate, whatever the hints say
 *   (KEP-1669), so that a rollout or a drained node refuses no client in between.
 * - The local set: the ready ones on this node, else those of this node that still serve
 *   while they terminate. Hints don't matter.
 * - `internal` and `external` get the set that their policy names. An empty local set
 *   beside a usable endpoint elsewhere is `drop`; no usable endpoint anywhere is `reject`.
 * - `externalFromNode` gets the cluster set whatever the policy: a load balancer's address
 *   must work on nodes without an endpoint for those who are there already.
 * - Without an external VIP both external targets are the internal one.
 */
export const categorizeEndpoints = (
  endpoints: readonly Endpoint[],
  policies: Policies,
  place: Place,
): Targets => {
  const { internalTrafficPolicy, externalTrafficPolicy, externallyAccessible } = policies
  const cluster = clusterSet(endpoints, place)
  const target = (policy: TrafficPolicy): Target => {
    if (cluster.length === 0) return reject
    if (policy === 'Cluster') return { verdict: 'forward', endpoints: cluster }
    const local = localSet(endpoints, place)
    return local.length === 0 ? drop : { verdict: 'forward', endpoints: local }
  }
  const internal = target(internalTrafficPolicy)
  if (!externallyAccessible) return onlyInternal(internal)
  const everywhere = target('Cluster')
  const external = target(externalTrafficPolicy)
  const reachable = union(endpoints, [internal, external, everywhere])
  return { internal, external, externalFromNode: everywhere, reachable }
}

const onlyInternal = (internal: Target): Targets => ({
  internal,
  external: internal,
  externalFromNode: internal,
  reachable: internal.endpoints,
})

/** Not empty exactly when any endpoint can be expected to answer. */
const clusterSet = (
  endpoints: readonly Endpoint[],
  place: Place,
): readonly Endpoint[] => {
  const ready = filtered(endpoints, isReady)
  if (ready.length > 0) return filtered(ready, hintFilter(ready, place))
  return filtered(endpoints, servesTerminating)
}

const localSet = (
  endpoints: readonly Endpoint[],
  { nodeName }: Place,
): readonly Endpoint[] => {
  if (nodeName === '') return []
  const local = filtered(endpoints, endpoint => endpoint.nodeName === nodeName)
  const ready = filtered(local, isReady)
  return ready.length > 0 ? ready : filtered(local, servesTerminating)
}

const isReady = ({ ready }: EndpointSpec): boolean => ready

const servesTerminating = ({ serving, terminating }: EndpointSpec): boolean =>
  serving && terminating

const any = (): boolean => true

/**
 * Hints count when every ready endpoint has some and one of them means this node or, if
 * node hints do not hold, this zone; a single endpoint without turns them off, because
 * the rest were not reckoned to carry its share (KEP-2433, KEP-3015). One kind of hint
 * holds for all endpoints, so the result is never empty.
 */
const hintFilter = (
  ready: readonly Endpoint[],
  { nodeName, zone }: Place,
): ((endpoint: Endpoint) => boolean) => {
  const forNode = ({ nodeHints }: Endpoint): boolean => nodeHints.includes(nodeName)
  const forZone = ({ zoneHints }: Endpoint): boolean => zoneHints.includes(zone)
  const hold = (hints: 'nodeHints' | 'zoneHints', named: typeof forNode): boolean =>
    ready.every(endpoint => endpoint[hints].length > 0) && ready.some(named)
  if (nodeName !== '' && hold('nodeHints', forNode)) return forNode
  if (zone !== '' && hold('zoneHints', forZone)) return forZone
  return any
}

const union = (
  endpoints: readonly Endpoint[],
  targets: readonly Target[],
): readonly Endpoint[] => {
  const lists = [...new Set(targets.map(target => target.endpoints))]
  const [only] = lists.toSorted((a, b) => b.length - a.length)
  const all = new Set(lists.flat())
  return only?.length === all.size ? only : filtered(endpoints, each => all.has(each))
}

/** The list itself when all of it passes: most do, and there are many. */
const filtered = (
  list: readonly Endpoint[],
  passes: (endpoint: Endpoint) => boolean,
): readonly Endpoint[] => (list.every(passes) ? list : list.filter(passes))
