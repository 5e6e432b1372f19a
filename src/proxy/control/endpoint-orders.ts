import type { OrderKind } from '../../mode/operator-orders.ts'
import type { AnswerOf } from '../../observe/control-protocol.ts'
import { bindText, timesOf } from '../../observe/status-service-port.ts'
import {
  type ControlDeps,
  type Handler,
  needsUserspace,
  takeEffect,
} from './carry-out.ts'
import { type NamedEndpoint, namedEndpoints } from './named-endpoints.ts'
import { meantBy, shortName } from './named-service-ports.ts'

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
    say(deps, named, { close, forMs }, 'drained by order')
  })
}

export const undrain: Handler<'undrain'> = (deps, request) =>
  changeDrains(deps, request, named => {
    const stood = named.filter(({ name, key }) => deps.orders.get('drain', name, key))
    withdraw(deps, 'drain', stood)
    say(deps, stood, {}, 'undrained by order')
  })

export const weight: Handler<'weight'> = async (deps, request) => {
  needsUserspace(deps, 'none goes by a weight that is given here')
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
  say(deps, named, { weight: wanted }, 'weight changed by order')
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
  needsUserspace(deps, 'none can be kept from an endpoint')
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

const say = (
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
