import type { Health } from '../health/health-checker.ts'
import type { StandingOrder } from '../mode/operator-orders.ts'
import { type Endpoint, isInternal, type ServicePort } from '../model/snapshot.ts'
import type { Bind, BindState, EndpointStats, ListenerStats } from '../relay/relay.ts'
import type { EndpointStatus, ServicePortStatus, VipStatus } from './status.ts'
import type { VipPlacement } from '../capture/capture.ts'
import { joinHostPort } from '../util/ip.ts'

const endpointState = ({
  ready,
  serving,
  terminating,
}: Endpoint): EndpointStatus['state'] =>
  ready ? 'ready' : serving && terminating ? 'terminating' : 'not ready'

type Holds = (endpoint: Endpoint) => boolean

const holdsAll: Holds = () => true

/** Whether an endpoint is one of `some`, which are a part of the ServicePort's: most often all of them. */
const isOneOf = (some: readonly Endpoint[], { endpoints }: ServicePort): Holds => {
  if (some.length === endpoints.length) return holdsAll
  const set = new Set(some)
  return endpoint => set.has(endpoint)
}

/** Answers for an endpoint which clients may reach it. */
const clientsOf = (port: ServicePort): ((endpoint: Endpoint) => string) => {
  const internal = ['internal', isOneOf(port.internal.endpoints, port)] as const
  const targets: readonly (readonly [string, Holds])[] = port.vips.every(isInternal)
    ? [internal]
    : [
        internal,
        ['external', isOneOf(port.external.endpoints, port)],
        ['node', isOneOf(port.externalFromNode.endpoints, port)],
      ]
  if (targets.every(([, holds]) => holds === holdsAll)) return () => 'all'
  return endpoint => {
    const who = targets.filter(([, holds]) => holds(endpoint))
    if (who.length === targets.length) return 'all'
    return who.map(([name]) => name).join('+') || 'none'
  }
}

/** What checks say of an endpoint (`ip:port`); undefined when it is not checked. */
export type CheckOf = (servicePort: ServicePort, endpoint: string) => Health | undefined

const checkStatus = (health: Health | undefined): EndpointStatus['check'] => {
  if (health === undefined) return null
  const { up, isKnown, forMs, reason, host } = health
  const since = isKnown ? timeText(Date.now() - forMs) : null
  return { up, since, why: reason, host }
}

/** A ServicePort with what is known of its endpoints: listener, orders, checks. */
type Known = readonly [
  servicePort: ServicePort,
  listener: ListenerStats | undefined,
  orders: readonly StandingOrder[],
  checkOf: CheckOf,
]

export const endpointStatuses = (...known: Known): readonly EndpointStatus[] => {
  const { servicePort, statusOf } = endpointsOf(known)
  return servicePort.endpoints.map(statusOf)
}

/**
 * The same as JSON. Of 100 000 endpoints most have nothing to tell but where they are: what follows
 * that is the same text for all alike, and is made once.
 */
export const endpointsText = (...known: Known): string => {
  const { servicePort, statusOf, isPlain, areAlike } = endpointsOf(known)
  let like: Endpoint | undefined
  let likeText = ''
  let text = ''
  for (const endpoint of servicePort.endpoints) {
    const key = bindText(endpoint)
    const start = `{"endpoint":${JSON.stringify(key)}`
    if (text !== '') text += ','
    if (!isPlain(key)) text += JSON.stringify(statusOf(endpoint))
    else {
      if (like === undefined || !areAlike(like, endpoint)) {
        like = endpoint
        likeText = JSON.stringify(statusOf(endpoint)).slice(start.length)
      }
      text += start + likeText
    }
  }
  return `[${text}]`
}

/** The endpoints of a ServicePort that there are, and those of them that get new connections. */
export const countEndpoints = (
  { endpoints, reachable }: ServicePort,
  orders: readonly StandingOrder[],
): ServicePortStatus['endpointCounts'] => {
  const drained = new Set(
    orders.flatMap(({ kind, endpoint }) => (kind === 'drain' ? [endpoint] : [])),
  )
  const usable =
    drained.size === 0
      ? reachable
      : reachable.filter(endpoint => !drained.has(bindText(endpoint)))
  return { usable: usable.length, all: endpoints.length }
}

const endpointsOf = ([servicePort, listener, orders, checkOf]: Known) => {
  const ordered = new Map(orders.map(order => [`${order.kind} ${order.endpoint}`, order]))
  const living = new Map(listener?.endpoints.map(stats => [stats.key, stats]))
  const isReachable = isOneOf(servicePort.reachable, servicePort)
  const clients = clientsOf(servicePort)
  const statusOf = (endpoint: Endpoint): EndpointStatus => {
    const key = bindText(endpoint)
    const stats = living.get(key)
    return {
      endpoint: key,
      state: endpointState(endpoint),
      eligible: isReachable(endpoint),
      clients: clients(endpoint),
      active: stats?.active ?? 0,
      failures: stats?.failures ?? 0,
      ...pathStatus(stats),
      resting: stats?.coolingDown ?? false,
      check: checkStatus(checkOf(servicePort, key)),
      ...orderStatus(
        ordered.get(`drain ${key}`),
        ordered.get(`weight ${key}`),
        endpoint.weight,
      ),
    }
  }
  /** There is nothing to say of it but what its slice says. */
  const isPlain = (key: string): boolean =>
    orders.length === 0 && !living.has(key) && checkOf(servicePort, key) === undefined
  const areAlike = (a: Endpoint, b: Endpoint): boolean =>
    endpointState(a) === endpointState(b) &&
    a.weight === b.weight &&
    isReachable(a) === isReachable(b) &&
    clients(a) === clients(b)
  return { servicePort, statusOf, isPlain, areAlike }
}

/** Left out where there is nothing to say: of 100 000 endpoints it would be long. */
const pathStatus = ({ rttMs, retransmits }: Partial<EndpointStats> = {}): Pick<
  EndpointStatus,
  'rttMs' | 'retransmits'
> => ({
  ...(rttMs !== undefined && { rttMs }),
  ...(retransmits !== undefined && { retransmits }),
})

const orderStatus = (
  drain: StandingOrder | undefined,
  weight: StandingOrder | undefined,
  usual = 1,
): Pick<EndpointStatus, 'drained' | 'weight' | 'weightSince'> => ({
  drained: drain?.kind === 'drain' ? { ...timesOf(drain), close: drain.close } : null,
  weight: weight?.kind === 'weight' ? weight.weight : usual,
  weightSince: weight === undefined ? null : timeText(weight.since),
})

export const timeText = (epochMs: number): string => new Date(epochMs).toISOString()

/** When an order began and when it ends by itself. */
export const timesOf = ({
  since,
  until,
}: Pick<StandingOrder, 'since' | 'until'>): {
  readonly since: string
  readonly until: string | null
} => ({
  since: timeText(since),
  until: until === undefined ? null : timeText(until),
})

/** `ip:port`, as people and `EndpointStats.key` write it. */
export const bindText = ({ address, port }: Bind): string => joinHostPort(address, port)

type VipState = Pick<VipStatus, 'state' | 'reason'>

const notApplied: VipState = { state: 'binding', reason: 'not applied yet' }

/** One state for a VIP that may be served by several binds: the worst of them. */
const stateOf = (states: readonly (BindState | undefined)[]): VipState => {
  for (const bound of states)
    if (bound?.state === 'failed')
      return { state: 'failed', reason: failedReason(bound.error) }
  if (states.every(bound => bound?.state === 'listening'))
    return { state: 'listening', reason: '' }
  if (states.includes(undefined)) return notApplied
  for (const bound of states)
    if (bound?.state === 'closed') return { state: 'refusing', reason: bound.reason }
  return { state: 'binding', reason: '' }
}

/** With a hint where another program has the port; ss(8) shows which. */
const failedReason = (error: string): string =>
  error === 'EADDRINUSE'
    ? `${error}, another program has this port, here or on all addresses`
    : error

export const vipStatus = (
  { vip, capture, binds, reason }: VipPlacement,
  bound: ReadonlyMap<string, BindState>,
): VipStatus => {
  const captured = capture !== 'not captured' && binds.length > 0
  const now: VipState = captured
    ? stateOf(binds.map(bind => bound.get(bindText(bind))))
    : { state: unbound(capture, reason), reason: '' }
  return {
    kind: vip.kind,
    vip: joinHostPort(vip.address, vip.port),
    capture,
    listen: captured ? binds.map(bindText).join(', ') : '',
    state: now.state,
    reason: [now.reason, reason].filter(text => text !== '').join('; '),
  }
}

/** In a kernel mode there is a reason only where clients are refused. */
const unbound = (capture: VipPlacement['capture'], reason: string): VipState['state'] =>
  capture !== 'kernel' ? 'not captured' : reason === '' ? 'forwarding' : 'refusing'
