import type { OrderKind, StandingOrder } from '../../mode/operator-orders.ts'
import type { AnswerOf } from '../../observe/control-protocol.ts'
import { bindText, timesOf } from '../../observe/port-view.ts'
import {
  type ControlDeps,
  type Handler,
  needsUserspace,
  takeEffect,
  Refusal,
} from './carry-out.ts'
import { meantBy, shortName, namedServicePorts } from './named-service-ports.ts'
import type { Endpoint, ServicePort, Snapshot } from '../../model/snapshot.ts'
import { canonicalIp, joinHostPort, splitHostPort } from '../../util/ip.ts'
import { suggest } from '../../util/suggest.ts'
import type { Log } from '../../observe/log.ts'

/** More are a line with their number. */
const mostLogged = 20

interface EndpointRequest {
  readonly endpoints: readonly string[]
  readonly routes?: readonly string[] | undefined
}

export const drain: Handler<'drain'> = (deps, request) => {
  const { close, forMs } = request
  return changeDrains(deps, request, named => {
    deps.orders.give(
      named.map(({ name, key }) => ({ kind: 'drain', name, endpoint: key, close })),
      forMs,
    )
    logNamed(deps, named, { close, forMs }, 'drained by order')
  })
}

export const undrain: Handler<'undrain'> = (deps, request) =>
  changeDrains(deps, request, named => {
    const stood = named.filter(({ name, key }) => deps.orders.get('drain', name, key))
    withdraw(deps, 'drain', stood)
    logNamed(deps, stood, {}, 'undrained by order')
  })

export const weight: Handler<'weight'> = async (deps, request) => {
  needsUserspace(deps, 'Usher cannot weight endpoints there')
  const { orders } = deps
  const named = endpointsOf(deps, request)
  const isOf = ({ name, key, endpoint }: NamedEndpoint): number =>
    orders.get('weight', name, key)?.weight ?? endpoint.weight ?? 1
  const before = named.map(isOf)
  const { weight: wanted } = request
  if (wanted === null) withdraw(deps, 'weight', named)
  else
    orders.give(
      named.map(({ name, key }) => ({
        kind: 'weight',
        name,
        endpoint: key,
        weight: wanted,
      })),
      undefined,
    )
  logNamed(deps, named, { weight: wanted }, 'weight changed by order')
  await takeEffect(deps)
  return {
    endpoints: named.map((one, i) => {
      const order = orders.get('weight', one.name, one.key)
      return {
        route: shortName(one.name),
        endpoint: one.key,
        was: before[i] ?? 1,
        weight: isOf(one),
        since: order ? timesOf(order).since : null,
      }
    }),
    notes: [],
  }
}

const endpointsOf = (
  { reconciler }: ControlDeps,
  { endpoints, routes }: EndpointRequest,
): readonly NamedEndpoint[] => namedEndpoints(reconciler.snapshots(), endpoints, routes)

/** Changes each endpoint that is meant, or none; answers when that is in effect. */
const changeDrains = async (
  deps: ControlDeps,
  request: EndpointRequest,
  make: (named: readonly NamedEndpoint[]) => void,
): Promise<AnswerOf<'drain'>> => {
  needsUserspace(deps, 'Usher cannot keep them from an endpoint')
  const { orders } = deps
  const named = endpointsOf(deps, request)
  const before = named.map(({ name, key }) => orders.get('drain', name, key))
  make(named)
  await takeEffect(deps)
  return {
    endpoints: named.map(({ name, key }, i) => {
      const now = orders.get('drain', name, key)
      return {
        route: shortName(name),
        endpoint: key,
        wasDrained: before[i] !== undefined,
        drained: now ? { ...timesOf(now), close: now.close } : null,
      }
    }),
    notes: withoutEndpoints(deps, named).map(noEndpoint),
  }
}

/** Of the ServicePorts of these endpoints those that have all of theirs drained. */
const withoutEndpoints = (
  { reconciler, orders }: ControlDeps,
  named: readonly NamedEndpoint[],
): readonly string[] => {
  const served = new Set(
    meantBy(reconciler.snapshots(), undefined).flatMap(({ name, reachable }) =>
      reachable.some(one => !orders.get('drain', name, bindText(one))) ? [name] : [],
    ),
  )
  const names = new Set(named.map(({ name }) => name))
  return [...names].filter(name => !served.has(name))
}

const noEndpoint = (name: string): string =>
  `${shortName(name)} has no endpoint left: new clients are refused, or wait where it has a hold`

const withdraw = (
  { orders }: ControlDeps,
  kind: OrderKind,
  named: readonly NamedEndpoint[],
): void => {
  orders.withdraw(named.map(({ name, key }) => ({ kind, name, endpoint: key })))
}

const logNamed = (
  { log }: ControlDeps,
  named: readonly NamedEndpoint[],
  fields: Readonly<Record<string, unknown>>,
  message: string,
): void => {
  for (const { name, key } of named.slice(0, mostLogged))
    log.info({ route: shortName(name), endpoint: key, ...fields }, message)
  const more = named.length - mostLogged
  if (more > 0) log.info({ more, ...fields }, message)
}

/** An endpoint of the ServicePorts of one name. */
interface NamedEndpoint {
  readonly name: string
  /** `ip:port`. */
  readonly key: string
  /** As the source has it. */
  readonly endpoint: Endpoint
}

/**
 * The endpoints that users mean by `10.0.0.5:5432`: of the routes they name, or of all that have
 * it. Throws a Refusal for the first name that is wrong.
 */
const namedEndpoints = (
  snapshots: readonly Snapshot[],
  given: readonly string[],
  routes: readonly string[] | undefined,
): readonly NamedEndpoint[] => {
  const among = meantBy(snapshots, routes)
  const byKey = new Map<string, Map<string, NamedEndpoint>>()
  for (const text of given) byKey.set(canonicalKey(text), new Map())
  for (const { name, endpoints } of among)
    for (const endpoint of endpoints) {
      const key = joinHostPort(endpoint.address, endpoint.port)
      byKey.get(key)?.set(name, { name, key, endpoint })
    }
  for (const text of given)
    if (byKey.get(canonicalKey(text))?.size === 0)
      throw new Refusal(404, 'UNKNOWN_ENDPOINT', unknownEndpoint(text, among, routes))
  return [...byKey.values()].flatMap(found => Array.from(found.values()))
}

/** As endpoints are written: of an IPv6 address there are many ways to write it. */
const canonicalKey = (text: string): string => {
  const { host, port } = splitHostPort(text) ?? { host: '', port: 0 }
  const address = canonicalIp(host)
  return address === undefined ? text : joinHostPort(address, port)
}

const unknownEndpoint = (
  text: string,
  among: readonly ServicePort[],
  routes: readonly string[] = [],
): string => {
  const known = new Set<string>()
  for (const { endpoints } of among)
    for (const { address, port } of endpoints) known.add(joinHostPort(address, port))
  const key = canonicalKey(text)
  const meant =
    [...known].find(one => one.startsWith(`${key}:`) || one.startsWith(`[${key}]:`)) ??
    suggest(key, [...known])
  const hint =
    meant !== undefined
      ? `did you mean ${meant}?`
      : known.size === 0
        ? 'there is none'
        : 'usher get endpoints lists them'
  const where = routes.length === 0 ? '' : ` of ${routes.map(shortName).join(', ')}`
  return `there is no endpoint ${JSON.stringify(text)}${where}; ${hint}`
}

export const pause: Handler<'pause'> = (deps, { routes, reset, forMs }) =>
  change(deps, routes, names => {
    deps.orders.give(
      names.map(name => ({ kind: 'pause', name, endpoint: '', reset })),
      forMs,
    )
    for (const name of names)
      deps.log.info({ route: shortName(name), reset, forMs }, 'paused by order')
  })

export const resume: Handler<'resume'> = (deps, { routes }) =>
  change(deps, routes, names => {
    for (const name of names)
      if (deps.orders.withdraw([{ kind: 'pause', name, endpoint: '' }]) > 0)
        deps.log.info({ route: shortName(name) }, 'resumed by order')
  })

/** Changes each ServicePort that is meant, or none; answers when that is in effect. */
const change = async (
  deps: ControlDeps,
  routes: readonly string[],
  make: (names: readonly string[]) => void,
): Promise<AnswerOf<'pause'>> => {
  needsUserspace(deps, 'Usher cannot make them wait')
  const { orders, reconciler } = deps
  const { names, notes } = namedServicePorts(reconciler.snapshots(), routes)
  const before = new Set(names.filter(name => orders.get('pause', name)))
  make(names)
  await takeEffect(deps)
  return {
    routes: names.map(name => {
      const now = orders.get('pause', name)
      return {
        route: shortName(name),
        wasPaused: before.has(name),
        paused: now ? timesOf(now) : null,
      }
    }),
    notes,
  }
}

const what = {
  pause: 'a pause has ended',
  drain: 'a drain has ended',
  weight: 'a weight override has ended',
} as const

/** Says which orders have ended by themselves, and why. */
export const logEnded = (
  log: Log,
  orders: readonly StandingOrder[],
  why: string,
): void => {
  for (const { kind, name, endpoint } of orders.slice(0, mostLogged)) {
    const whose = endpoint === '' ? {} : { endpoint }
    log.info({ route: shortName(name), ...whose, why }, what[kind])
  }
  const more = orders.length - mostLogged
  if (more > 0) log.info({ more, why }, 'more orders have ended')
}
