import type { Placement, VipPlacement } from '../capture/capture.ts'
import type { Health } from '../health/health-checker.ts'
import { isOnLoopback, loopbackKey } from '../mode/hybrid-mode.ts'
import type { StandingOrder } from '../mode/operator-orders.ts'
import { unservedPlacement } from '../mode/placements.ts'
import {
  type Endpoint,
  isInternal,
  type ServicePort,
  type Snapshot,
  type Vip,
} from '../model/snapshot.ts'
import {
  endpointState,
  isUsable,
  type ServiceState,
  unusedReason,
} from '../page/service-words.ts'
import type { ShownRow } from '../page/wire.ts'
import type { Bind, BindState, EndpointStats, ListenerStats } from '../relay/relay.ts'
import { count } from '../page/format.ts'
import { joinHostPort } from '../util/ip.ts'
import { forEachYielding } from '../util/list-diff.ts'
import { joinListeners } from './joined-listeners.ts'
import { optionsInForce } from '../source/routes/route-fields.ts'
import type { EndpointStatus, ServicePortStatus, VipStatus } from './status.ts'

/*
 * A ServicePort with all that is known of it now, and what is worked out of that: the one place, for
 * /status and the commands that ask for it, and for the live page.
 */

/** What checks say of a ServicePort's endpoints (`ip:port`), of each that is checked; undefined when none is. */
export type ChecksOf = (
  servicePort: ServicePort,
) => ((endpoint: string) => Health | undefined) | undefined

export interface PortView {
  readonly servicePort: ServicePort
  readonly vips: readonly VipPlacement[]
  /** Of its listeners together; undefined where no relay has one. */
  readonly listener: ListenerStats | undefined
  /** Undefined where the kernel carries its connections, if only but those to node ports on loopback. */
  readonly counters: ListenerStats['counters'] | undefined
  readonly orders: readonly StandingOrder[]
  readonly checkOf: ReturnType<ChecksOf>
  /** Worked out once, when it is asked for. */
  readonly condition: Condition
}

/** As much of it as the metric shows. */
export interface PortState extends Pick<PortView, 'servicePort'> {
  readonly state: ServiceState
}

export interface ViewInput {
  readonly snapshots: readonly Snapshot[]
  readonly placements: readonly Placement[]
  readonly stats: { readonly listeners: Iterable<ListenerStats> }
  /** What operators have ordered. */
  readonly orders: readonly StandingOrder[]
  readonly checksOf: ChecksOf
}

/** The same as `portViews`, to be gone through at the pace of `forEachYielding`. */
export const portViewsInTurn = async (input: ViewInput): Promise<Iterable<PortView>> => {
  const listeners = new Map<string, ListenerStats>()
  await forEachYielding(input.stats.listeners, listener => {
    listeners.set(listener.id, listener)
  })
  return portViews(input, listeners)
}

/** The state of each, worked out at that pace. */
export const statesInTurn = async (input: ViewInput): Promise<readonly PortState[]> => {
  const states: PortState[] = []
  await forEachYielding(
    await portViewsInTurn(input),
    ({ servicePort, condition: { state } }) => {
      states.push({ servicePort, state })
    },
  )
  return states
}

/** Each ServicePort, in the order of the snapshots. */
export function* portViews(
  { snapshots, placements, stats, orders, checksOf }: ViewInput,
  listeners: ReadonlyMap<string, ListenerStats> = new Map(
    Array.from(stats.listeners, listener => [listener.id, listener]),
  ),
): Generator<PortView> {
  const ordered = byName(orders)
  const byKey = { IPv4: new Map<string, Placement>(), IPv6: new Map<string, Placement>() }
  for (const one of placements)
    byKey[one.servicePort.family].set(one.servicePort.key, one)
  for (const { servicePorts } of snapshots)
    for (const servicePort of servicePorts.values()) {
      const placed = placedOf(servicePort, byKey[servicePort.family])
      const own = placed
        .map(({ listenerId }) => listeners.get(listenerId))
        .filter(isThere)
      const listener = joinListeners(own)
      const isAll = own.some(({ id }) => !isOnLoopback(id))
      const parts: PortParts = {
        servicePort,
        vips: vipsOf(servicePort, placed),
        listener,
        counters: isAll ? listener?.counters : undefined,
        orders: ordered.get(servicePort.name) ?? noOrders,
        checkOf: checksOf(servicePort),
      }
      let condition: Condition | undefined
      yield {
        ...parts,
        get condition() {
          return (condition ??= conditionOf(parts))
        },
      }
    }
}

/** Of the ServicePort with all its VIPs, of which `part` may have some. */
export const viewOf = (part: ServicePort, input: ViewInput): PortView => {
  const { family, name, protocol } = part
  const { servicePorts: all = [] } =
    input.snapshots.find(one => one.family === family) ?? {}
  let servicePort = part
  for (const [, one] of all)
    if (one.name === name && one.protocol === protocol) servicePort = one
  const servicePorts = new Map([[servicePort.key, servicePort]])
  const [view] = portViews({
    ...input,
    snapshots: [{ family, servicePorts, healthChecks: new Map() }],
  })
  return view as PortView
}

const noOrders: readonly StandingOrder[] = []

const byName = (
  orders: readonly StandingOrder[],
): ReadonlyMap<string, readonly StandingOrder[]> => {
  const found = new Map<string, StandingOrder[]>()
  for (const order of orders) {
    const own = found.get(order.name) ?? []
    own.push(order)
    found.set(order.name, own)
  }
  return found
}

const isThere = <T>(one: T | undefined): one is T => one !== undefined

/** What is on loopback is placed apart. */
const placedOf = (
  servicePort: ServicePort,
  known: ReadonlyMap<string, Placement>,
): readonly Placement[] => {
  const own = [known.get(servicePort.key)]
  if (servicePort.vips.some(({ kind }) => kind === 'NodePort'))
    own.push(known.get(loopbackKey(servicePort)))
  return own.filter(isThere)
}

/** The same object as before where nothing has changed. */
const vipsOf = (
  servicePort: ServicePort,
  placed: readonly Placement[],
): readonly VipPlacement[] => {
  const [first, ...others] = placed
  // It is newer than the last sync.
  if (first === undefined) return unservedPlacement(servicePort, 'not applied yet').vips
  return others.length === 0 ? first.vips : placed.flatMap(({ vips }) => vips)
}

/** A field of `/status`, and how it is read. */
type PortFields = {
  readonly [F in keyof ServicePortStatus]-?: (view: PortView) => ServicePortStatus[F]
}

export const portFields: PortFields = {
  servicePort: ({ servicePort }) => servicePort.name,
  protocol: ({ servicePort }) => servicePort.protocol,
  family: ({ servicePort }) => servicePort.family,
  affinityMs: ({ servicePort }) => servicePort.affinityMs,
  verdicts: ({ servicePort: { internal, external, externalFromNode } }) => ({
    internal: internal.verdict,
    external: external.verdict,
    node: externalFromNode.verdict,
  }),
  sourceRanges: ({ servicePort }) => servicePort.sourceRanges ?? null,
  vips: ({ vips, listener }) => vips.map(vip => vipStatus(vip, listener?.binds ?? [])),
  state: view => view.condition.state,
  reason: view => view.condition.reason,
  endpointCounts: view => view.condition.endpointCounts,
  options: ({ servicePort }) => optionsInForce(servicePort),
  holdMs: ({ servicePort: { protocol, retry } }) =>
    protocol === 'TCP' ? (retry?.holdMs ?? 0) : 0,
  paused: view => {
    const pause = pauseOf(view)
    return pause === undefined ? null : timesOf(pause)
  },
  active: ({ counters }) => counters?.active ?? null,
  accepted: ({ counters }) => counters?.accepted ?? null,
  failed: ({ counters }) => (counters === undefined ? null : failedOf(counters)),
  failedBy: ({ counters }) => (counters === undefined ? {} : failuresOf(counters)),
  retries: ({ counters }) => counters?.dialRetries ?? null,
  held: ({ counters }) => counters?.held ?? null,
  holdRefused: ({ counters }) => counters?.holdRefused ?? null,
  queued: ({ counters }) => counters?.queued ?? null,
  bytesToBackend: ({ counters }) => counters?.bytesToBackend ?? null,
  bytesToClient: ({ counters }) => counters?.bytesToClient ?? null,
  datagrams: ({ counters }) =>
    counters === undefined
      ? null
      : counters.datagramsToBackend + counters.datagramsToClient,
  lastError: ({ listener }) => listener?.lastError ?? '',
  endpoints: view => endpointStatuses(view),
}

/** All that went wrong but what clients did themselves (CC, CD, cD): see cause.ts. */
const failuresOf = ({ failed }: ListenerStats['counters']): Record<string, number> =>
  Object.fromEntries(
    Object.entries(failed).filter(([cause, times]) => times > 0 && !/^c/i.test(cause)),
  )

/** As `failed` of a ServicePort. */
export const failedOf = (counters: ListenerStats['counters']): number =>
  Object.values(failuresOf(counters)).reduce((sum, times) => sum + times, 0)

const pauseOf = ({ servicePort, orders }: PortParts): StandingOrder | undefined =>
  servicePort.protocol === 'TCP' ? orders.find(({ kind }) => kind === 'pause') : undefined

type PortParts = Omit<PortView, 'condition'>

type Reasoned = readonly [state: ServiceState, reason: string]

/** How it is as a whole; why endpoints are missing stands elsewhere. */
const stateOf = (view: PortParts, condition: EndpointsCondition): Reasoned => {
  const { servicePort, listener } = view
  const failed = failedBind(view)
  if (failed !== undefined) return ['failing', failed]
  if (pauseOf(view)) return ['paused', 'by an operator: new clients wait']
  if (servicePort.endpoints.length === 0) return ['no endpoints', '']
  const { usable, coolingDown, missing, drained } = condition
  if (usable === 0) return [missing + drained > 0 ? 'down' : 'no endpoints', '']
  const vip = vipTrouble(view)
  if (vip?.[0] === 'failing') return vip
  const held = listener?.counters.held ?? 0
  if (held > 0) return ['failing', `${count(held, 'client')} without an endpoint`]
  if (listener?.failing === true) return ['failing', 'the last client got no endpoint']
  if (coolingDown === usable) return ['failing', '']
  if (missing + coolingDown > 0) return ['degraded', vip?.[1] ?? '']
  if (vip !== undefined) return vip
  if (servicePort.internal.verdict === 'drop') return ['degraded', droppedHere]
  return [drained > 0 ? 'draining' : 'ok', '']
}

const droppedHere =
  'clients on this node are not served: no local endpoints (internalTrafficPolicy: Local)'

const failedBind = ({ listener }: PortParts): string | undefined => {
  for (const bind of listener?.binds ?? [])
    if (bind.state === 'failed' && bind.isIdle !== true)
      return `${bindText(bind.bind)} can’t be listened on: ${bind.error}`
  return undefined
}

/** Of one with endpoints: VIPs at which they do not serve; undefined when all is well. */
const vipTrouble = ({ vips, listener }: PortParts): Reasoned | undefined => {
  const missing = vips.filter(({ capture }) => capture === 'not captured')
  const [first] = missing
  if (first !== undefined) {
    const state = missing.length === vips.length ? 'failing' : 'degraded'
    return [state, `${vipText(first.vip)} is not served: ${first.reason}`]
  }
  const binds = listener?.binds ?? []
  const [closed] = binds
  if (closed?.state === 'closed' && binds.every(({ state }) => state === 'closed'))
    return ['failing', `clients are refused: ${closed.reason}`]
  const binding = binds.filter(({ state }) => state === 'binding').length
  if (binding === 0) return undefined
  return [binding === binds.length ? 'failing' : 'degraded', 'it is not listened on yet']
}

/** What there is to know of its endpoints together. */
interface EndpointsCondition {
  /** Up, and with new connections of some clients. */
  readonly usable: number
  /** Of those: each has failed a moment ago. */
  readonly coolingDown: number
  readonly drained: number
  /** Not in use though they should be, by policy and hints. */
  readonly missing: number
  /** Why endpoints are missing; '' where none is. */
  readonly reason: string
}

/** Named; of more there is the number. */
const mostNamed = 2

/** Looks closer only where there is something to say of an endpoint. */
const endpointsCondition = (view: PortParts): EndpointsCondition => {
  const found = { usable: 0, coolingDown: 0, drained: 0, missing: 0, unused: 0 }
  if (isPlain(view))
    return { ...found, usable: view.servicePort.endpoints.length, reason: '' }
  const named: string[] = []
  let more = 0
  for (const { keys, condition } of runsOf(view)) {
    const state = endpointState(condition)
    const many = keys.length
    if (isUsable(condition)) found.usable += many
    if (state === 'cooling down') found.coolingDown += many
    else if (state === 'drained') found.drained += many
    else if (state === 'unused') found.unused += many
    else if (!isUsable(condition) && state !== 'terminating') found.missing += many
    if (state === 'unused' || state === 'ready' || state === 'terminating') continue
    const some = keys.slice(0, mostNamed - named.length)
    for (const key of some)
      named.push([key, state, unusedReason(condition)].filter(Boolean).join(' '))
    more += many - some.length
  }
  const reason = [
    ...named,
    ...(more > 0 ? [`${more} more`] : []),
    ...(found.unused > 0 ? [`${found.unused} unused by policy or hints`] : []),
  ].join(', ')
  return { ...found, reason }
}

/** Whether all its endpoints are in use: there is nothing to say of any. */
const isPlain = ({ servicePort, listener, orders, checkOf }: PortParts): boolean =>
  servicePort.reachable.length === servicePort.endpoints.length &&
  orders.length === 0 &&
  checkOf === undefined &&
  listener?.endpoints.some(({ coolingDown }) => coolingDown) !== true

/** Its state in one word, why it is so or why endpoints are missing, and how many are in use. */
export interface Condition {
  readonly state: ServiceState
  readonly reason: string
  readonly endpointCounts: { readonly usable: number; readonly all: number }
}

const conditionOf = (view: PortParts): Condition => {
  const endpoints = endpointsCondition(view)
  const [state, reason] = stateOf(view, endpoints)
  return {
    state,
    reason: [reason, endpoints.reason].filter(Boolean).join('; '),
    endpointCounts: { usable: endpoints.usable, all: view.servicePort.endpoints.length },
  }
}

/** Named in a row of the page; of more there is the number. */
const mostVips = 3

/** What the page says of it, but for what is counted. */
export const rowOf = (view: PortView): ShownRow => {
  const { name, protocol, family, vips } = view.servicePort
  const addresses = vips.slice(0, mostVips).map(vipText)
  const more = vips.length - addresses.length
  return {
    servicePort: name,
    protocol,
    family,
    addresses: `${addresses.join(' ')}${more > 0 ? ` +${more}` : ''}`,
    ...view.condition,
  }
}

/** What `rowOf` goes by: the same of these objects is the same row. Empty where that says nothing: checks change by themselves. */
export const partsOf = (view: PortView): readonly unknown[] => {
  const { servicePort, vips, listener, orders } = view
  return isPlain(view) ? [servicePort, vips, listener, orders] : []
}

/** A node port is on all addresses. */
const vipText = ({ kind, address, port }: Vip): string =>
  kind === 'NodePort' ? `*:${port}` : joinHostPort(address, port)

export type PortField = keyof ServicePortStatus

export const isPortField = (name: string): name is PortField =>
  Object.hasOwn(portFields, name)

/** These fields of it. */
export const portStatus = (
  view: PortView,
  fields: readonly PortField[],
): Readonly<Record<string, unknown>> => {
  const read: Record<string, unknown> = {}
  for (const field of fields) read[field] = portFields[field](view)
  return read
}

/** The same as JSON; see `endpointsText`. Field by field: an object of so many is slow to make and to write. */
export const portText = (
  view: PortView,
  fields: readonly PortField[],
  joinsAlike: boolean,
): string => {
  let text = ''
  for (const field of fields) {
    const value =
      field === 'endpoints'
        ? endpointsText(view, joinsAlike)
        : valueText(portFields[field](view))
    text += `${text === '' ? '{' : ','}"${field}":${value}`
  }
  return text === '' ? '{}' : `${text}}`
}

const valueText = (value: unknown): string =>
  typeof value === 'number' || value === null ? String(value) : JSON.stringify(value)

type EndpointCondition = Omit<EndpointStatus, 'endpoint'>

const endpointStatuses = (view: PortView): readonly EndpointStatus[] =>
  runsOf(view).flatMap(({ keys, condition }) =>
    keys.map(endpoint => ({ endpoint, ...condition })),
  )

/** Its endpoints as JSON; those that are alike as one where who asks `joinsAlike`. */
const endpointsText = (view: PortView, joinsAlike: boolean): string => {
  const texts: string[] = []
  for (const { keys, condition } of runsOf(view)) {
    const rest = JSON.stringify(condition).slice(1)
    if (joinsAlike && keys.length > 1) {
      const [first = '', ...others] = keys.map(quoted)
      texts.push(`{"endpoint":${first},"alike":[${others.join(',')}],${rest}`)
    } else for (const key of keys) texts.push(`{"endpoint":${quoted(key)},${rest}`)
  }
  return `[${texts.join(',')}]`
}

/** The path of a unix socket may have anything in it, an address nothing. */
const quoted = (key: string): string =>
  key.startsWith('unix:') ? JSON.stringify(key) : `"${key}"`

/** Endpoints that follow each other and differ in nothing but where they are. */
interface Run {
  readonly keys: string[]
  readonly condition: EndpointCondition
}

/** Its endpoints. Of 100 000 most have nothing to tell but where they are: what is said of them is made once for all alike. */
const runsOf = ({
  servicePort,
  listener,
  counters,
  orders,
  checkOf,
}: PortParts): readonly Run[] => {
  const ordered = new Map(orders.map(order => [`${order.kind} ${order.endpoint}`, order]))
  const living = new Map(
    listener?.endpoints.filter(isUsed).map(stats => [stats.key, stats]),
  )
  const isReachable = isOneOf(servicePort.reachable, servicePort)
  const clients = clientsOf(servicePort)
  const endpointConditionOf = (endpoint: Endpoint, key: string): EndpointCondition => {
    const stats = living.get(key)
    return {
      state: sourceState(endpoint),
      eligible: isReachable(endpoint),
      clients: clients(endpoint),
      active: counters === undefined ? null : (stats?.active ?? 0),
      failures: counters === undefined ? null : (stats?.failures ?? 0),
      ...pathStatus(stats),
      coolingDown: stats?.coolingDown ?? false,
      check: checkStatus(checkOf?.(key)),
      ...orderStatus(
        ordered.get(`drain ${key}`),
        ordered.get(`weight ${key}`),
        endpoint.weight,
      ),
    }
  }
  const areAlike = (a: Endpoint, b: Endpoint): boolean =>
    sourceState(a) === sourceState(b) &&
    a.weight === b.weight &&
    isReachable(a) === isReachable(b) &&
    clients(a) === clients(b)
  const runs: Run[] = []
  /** The last one, if there is nothing to say of it but what its slice says. */
  let last: Endpoint | undefined
  for (const endpoint of servicePort.endpoints) {
    const key = bindText(endpoint)
    const isUnmarked =
      orders.length === 0 &&
      (living.size === 0 || !living.has(key)) &&
      checkOf?.(key) === undefined
    if (isUnmarked && last !== undefined && areAlike(last, endpoint))
      runs.at(-1)?.keys.push(key)
    else runs.push({ keys: [key], condition: endpointConditionOf(endpoint, key) })
    last = isUnmarked ? endpoint : undefined
  }
  return runs
}

/** A relay in this process tells of all that it has, also where there is nothing to tell. */
const isUsed = ({ active, failures, coolingDown, rttMs }: EndpointStats): boolean =>
  active > 0 || failures > 0 || coolingDown || rttMs !== undefined

const sourceState = ({ ready, terminating }: Endpoint): EndpointStatus['state'] =>
  ready ? 'ready' : terminating ? 'terminating' : 'not ready'

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

const checkStatus = (health: Health | undefined): EndpointStatus['check'] => {
  if (health === undefined) return null
  const { up, isKnown, forMs, reason, host } = health
  const since = isKnown ? timeText(Date.now() - forMs) : null
  return { up, since, why: reason, host }
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
const boundState = (states: readonly (BindState | undefined)[]): VipState => {
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
    ? `${error}, another program uses this port, here or on all addresses`
    : error

const vipStatus = (
  { vip, capture, binds, reason }: VipPlacement,
  bound: readonly BindState[],
): VipStatus => {
  const captured = capture !== 'not captured' && binds.length > 0
  const now: VipState = captured
    ? boundState(binds.map(bind => bound.find(one => isSameBind(one.bind, bind))))
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

const isSameBind = (a: Bind, b: Bind): boolean =>
  a.port === b.port && a.address === b.address

/** In a kernel mode there is a reason only where clients are refused. */
const unbound = (capture: VipPlacement['capture'], reason: string): VipState['state'] =>
  capture !== 'kernel' ? 'not captured' : reason === '' ? 'forwarding' : 'refusing'
