import type { EndpointSpec, TrafficPolicy } from './service.ts'
import type { Endpoint, Target } from './snapshot.ts'

/** What of a ServicePort decides who may get its clients. */
export interface Policies {
  readonly internalTrafficPolicy: TrafficPolicy
  readonly externalTrafficPolicy: TrafficPolicy
  /** It has a VIP that is not internal: only then the external policy means something. */
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

/** Why an endpoint is not in a target. */
export type LeftOut =
  | 'not ready'
  | 'terminating'
  /** A check has found it down. */
  | 'down'
  | 'not on this node'
  /** Its hints are for other nodes, or zones. */
  | 'hinted elsewhere'

/** Hears of each endpoint that is left out, and why. */
type OnLeftOut = (endpoint: Endpoint, reason: LeftOut) => void

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
  const target = (policy: TrafficPolicy): Target =>
    targetOf(cluster, () => localSet(endpoints, place), policy)
  const internal = target(internalTrafficPolicy)
  if (!externallyAccessible) return onlyInternal(internal)
  const everywhere = target('Cluster')
  const external = target(externalTrafficPolicy)
  const reachable = union(endpoints, [internal, external, everywhere])
  return { internal, external, externalFromNode: everywhere, reachable }
}

const targetOf = (
  cluster: readonly Endpoint[],
  localOf: () => readonly Endpoint[],
  policy: TrafficPolicy,
): Target => {
  if (cluster.length === 0) return reject
  if (policy === 'Cluster') return { verdict: 'forward', endpoints: cluster }
  const local = localOf()
  return local.length === 0 ? drop : { verdict: 'forward', endpoints: local }
}

/** Why those of a ServicePort's endpoints that a target of `policy` has not are left out of it. */
export const leftOutReasons = (
  endpoints: readonly Endpoint[],
  policy: TrafficPolicy,
  place: Place,
): ReadonlyMap<Endpoint, LeftOut> => {
  let left = new Map<Endpoint, LeftOut>()
  const onLeftOut: OnLeftOut = (one, reason) => void left.set(one, reason)
  const cluster = clusterSet(endpoints, place, onLeftOut)
  // Only of the set that is taken.
  const localOf = (): readonly Endpoint[] => {
    left = new Map()
    return localSet(endpoints, place, onLeftOut)
  }
  targetOf(cluster, localOf, policy)
  return left
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
  onLeftOut?: OnLeftOut,
): readonly Endpoint[] => {
  const ready = filtered(endpoints, isReady)
  if (ready.length === 0)
    return filtered(endpoints, servesTerminating, unready, onLeftOut)
  if (onLeftOut !== undefined) filtered(endpoints, isReady, unready, onLeftOut)
  return filtered(ready, hintFilter(ready, place), () => 'hinted elsewhere', onLeftOut)
}

const localSet = (
  endpoints: readonly Endpoint[],
  { nodeName }: Place,
  onLeftOut?: OnLeftOut,
): readonly Endpoint[] => {
  const isHere = (endpoint: Endpoint): boolean =>
    nodeName !== '' && endpoint.nodeName === nodeName
  const local = filtered(endpoints, isHere, () => 'not on this node', onLeftOut)
  const isAnyReady = local.some(isReady)
  return filtered(local, isAnyReady ? isReady : servesTerminating, unready, onLeftOut)
}

const isReady = ({ ready }: EndpointSpec): boolean => ready

const servesTerminating = ({ serving, terminating }: EndpointSpec): boolean =>
  serving && terminating

const unready = ({ isDown, terminating }: Endpoint): LeftOut =>
  isDown ? 'down' : terminating ? 'terminating' : 'not ready'

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
  reason?: (endpoint: Endpoint) => LeftOut,
  onLeftOut?: OnLeftOut,
): readonly Endpoint[] => {
  if (list.every(passes)) return list
  if (reason && onLeftOut)
    for (const one of list) if (!passes(one)) onLeftOut(one, reason(one))
  return list.filter(passes)
}
