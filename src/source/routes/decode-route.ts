import { decodeCheck, readCheck } from '../../health/check-option.ts'
import { readLogDestination } from '../../model/access-log.ts'
import type { Protocol } from '../../model/service.ts'
import { rangesOf } from '../../util/address-ranges.ts'
import { joinHostPort } from '../../util/ip.ts'
import { peek } from '../../util/json.ts'
import { show } from '../../util/printable.ts'
import { isUnix, unixPlace } from '../../util/unix-address.ts'
import {
  decodeEffects,
  decodeTraffic,
  decodeUdpTraffic,
  idleOptions,
} from '../options/endpoint-options.ts'
import { msOf } from '../../util/schema.ts'
import {
  decodeAccessLog,
  plainName,
  socketAddress,
  socketOptions,
} from '../options/route-only-options.ts'
import {
  backendText,
  isLoop,
  type Route,
  type RouteBackend,
  type RoutePool,
} from './route.ts'
import { type Listen, readListen, readTarget, type Target } from './route-address.ts'
import { type RawRoute, routeOptions } from './route-fields.ts'
import type { ShapeFault } from './shape-faults.ts'

/** `tcp-127-0-0-1-15432`, `unix-run-db-sock`: as good as one for each listen address and protocol. */
const nameByListen = ({ protocol, address, port }: Listen): string =>
  isUnix(address)
    ? unixPlace(address)
        .toLowerCase()
        .replaceAll(/[^a-z0-9]+/g, '-')
        .slice(0, 63)
        .replace(/-$/, '')
    : `${protocol.toLowerCase()}-${address.replaceAll(/[.:]/g, '-')}-${port}`

/** `tcp://127.0.0.1:15432`, `unix:/run/db.sock`. */
const listenText = (
  protocol: Protocol,
  { address, port }: Omit<Listen, 'protocol'>,
): string => {
  const place = joinHostPort(address, port)
  return isUnix(address) ? place : `${protocol.toLowerCase()}://${place}`
}

/** A route that has no faults. `text` is what it is called in messages, if not by name. */
export const decodeRoute = (raw: RawRoute, text?: string): Route => {
  const { protocol, ...listen } = readListen(raw.listen) as Listen
  const tiers = raw.tiers ?? [raw.endpoints ?? []]
  const backends = tiers.flatMap((targets, tier) =>
    targets.map((given): RouteBackend => ({ ...(readTarget(given) as Target), tier })),
  )
  const name = raw.name ?? nameByListen({ protocol, ...listen })
  const pools = poolsOf(raw)
  return {
    text: text ?? raw.name ?? listenText(protocol, listen),
    name,
    protocol,
    listen: { address: socketAddress(listen.address, raw), port: listen.port },
    backends: pools === undefined ? backends : allOf(backends, pools),
    ...(pools !== undefined && {
      pools,
      others: backends.length > 0 ? backends : undefined,
    }),
    affinityMs: msOf(raw.affinity) ?? 0,
    check: raw.check === undefined ? undefined : decodeCheck(raw.check),
    ...decodeEffects(raw),
    onGone: raw.onGone ?? 'keep',
    lists: listsOf(raw),
    ...(protocol === 'TCP' ? decodeTraffic(raw, true) : decodeUdpTraffic(raw)),
    ...decodeAccessLog(raw, name),
    ...(raw.acceptProxy !== undefined && { acceptProxy: rangesOf(raw.acceptProxy) }),
  }
}

const poolsOf = ({ serverNames }: RawRoute): readonly RoutePool[] | undefined =>
  serverNames?.map(({ names, alpn, endpoints }) => ({
    names: names?.map(plainName),
    alpn,
    backends: endpoints.map(given => ({ ...(readTarget(given) as Target), tier: 0 })),
  }))

/** Each once: an endpoint may be in several pools. */
const allOf = (
  others: readonly RouteBackend[],
  pools: readonly RoutePool[],
): readonly RouteBackend[] => {
  const all = [...others, ...pools.flatMap(pool => pool.backends)]
  const seen = new Map(all.toReversed().map(backend => [backendText(backend), backend]))
  return [...seen.values()].toReversed()
}

const listsOf = ({ allow, deny, probers }: RawRoute): Route['lists'] =>
  (allow ?? deny ?? probers) && { deny, allow, probers }

/**
 * What no field shows by itself: fields that are at odds, an endpoint that is there twice or is
 * the route itself. Of any value: what can't be read has its fault already.
 */
export const routeFaults = (raw: unknown): ShapeFault[] => {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return []
  const given = peek(raw, 'listen')
  const read = typeof given === 'string' ? readListen(given) : ''
  const listen = typeof read === 'string' ? undefined : read
  return [
    ...placeFaults(raw),
    ...targetFaults(targetsOf(raw), listen),
    ...poolFaults(raw, listen),
    ...(listen?.protocol === 'UDP' ? faultsOf(raw, tcpOptions, forTcp) : []),
    ...unixFaults(raw, listen, targetsOf(raw)),
    ...idleFaults(raw, listen?.protocol),
    ...(listen?.protocol === 'UDP' ? [] : logFaults(raw)),
  ]
}

const placeFaults = (raw: object): ShapeFault[] => {
  const hasEndpoints = Object.hasOwn(raw, 'endpoints')
  if (hasEndpoints && Object.hasOwn(raw, 'tiers'))
    return [{ path: ['tiers'], message: 'is given beside endpoints; leave one out' }]
  if (hasEndpoints || Object.hasOwn(raw, 'tiers')) return []
  if (Object.hasOwn(raw, 'serverNames')) return []
  const message =
    'is missing; give a list like [10.0.0.5:5432, 10.0.0.6:5432], or tiers in its place'
  return [{ path: ['endpoints'], message }]
}

interface PlacedTarget extends Target {
  readonly path: ShapeFault['path']
}

/** Those that can be read. */
const targetsOf = (raw: object): PlacedTarget[] => {
  const within = (given: unknown, path: ShapeFault['path']): PlacedTarget[] => {
    if (Array.isArray(given))
      return given.flatMap((each, i) => within(each, [...path, i]))
    const target = typeof given === 'string' ? readTarget(given) : ''
    return typeof target === 'string' ? [] : [{ ...target, path }]
  }
  return ['endpoints', 'tiers'].flatMap(name => within(peek(raw, name), [name]))
}

const targetFaults = (
  targets: readonly PlacedTarget[],
  listen: Listen | undefined,
): ShapeFault[] => {
  const seen = new Set<string>()
  return targets.flatMap(({ path, ...target }) => {
    const { host, port } = target
    const key = backendText(target)
    const isTwin = seen.has(key)
    seen.add(key)
    if (isTwin) return [{ path, message: `${show(key)} is given twice; give it once` }]
    return listen !== undefined && isLoop(listen, host, port)
      ? [{ path, message: `${show(key)} is the route itself; give another port` }]
      : []
  })
}

/** Of each pool by itself: one endpoint may be in several. */
const poolFaults = (raw: object, listen: Listen | undefined): ShapeFault[] => {
  const pools: unknown = peek(raw, 'serverNames')
  if (!Array.isArray(pools)) return []
  const seen = new Set<string>()
  return pools.flatMap((pool: unknown, i): ShapeFault[] => {
    if (typeof pool !== 'object' || pool === null) return []
    const at: ShapeFault['path'][number][] = ['serverNames', i]
    const faults = targetFaults(targetsOf(pool), listen).map(
      ({ path, message }): ShapeFault => ({ path: at.concat(path), message }),
    )
    const [names, alpn] = [peek(pool, 'names'), peek(pool, 'alpn')]
    const key = JSON.stringify([names, alpn])
    const isTwin = seen.has(key)
    seen.add(key)
    if (names === undefined && alpn === undefined)
      faults.push({ path: at, message: 'has neither names nor alpn; give one of them' })
    else if (isTwin)
      faults.push({ path: at, message: 'is for the same as another; put them together' })
    return faults
  })
}

/** Options that go by the address of a client. */
const byAddress = [
  'affinity',
  'allow',
  'deny',
  'probers',
  'acceptProxy',
  'maxClientConnections',
  'maxClientRate',
]

/** What a route can't have where it listens on, or goes to, a unix socket; and the other way round. */
const unixFaults = (
  raw: object,
  listen: Listen | undefined,
  targets: readonly (Target & { readonly path: ShapeFault['path'] })[],
): readonly ShapeFault[] => {
  if (listen === undefined) return []
  const sockets = targets.filter(({ host }) => isUnix(host))
  const isUdp = listen.protocol === 'UDP'
  const asksPort = checkPort(peek(raw, 'check')) !== undefined
  const byClient = peek(raw, 'balance') === 'maglev' ? ['balance'] : []
  return [
    ...(isUnix(listen.address)
      ? faultsOf(raw, [...byAddress, ...byClient], needsAddress)
      : []),
    ...(listen.address.startsWith('unix:/')
      ? []
      : faultsOf(raw, Object.keys(socketOptions), notAPath)),
    ...(isUdp ? sockets : []).map(({ host, path }) => ({
      path,
      message: `${show(host)} is for TCP; give an address and a port, or listen on tcp://`,
    })),
    ...(asksPort ? sockets.slice(0, 1) : []).map(({ host }) => ({
      path: ['check'],
      message: `asks a port, which ${show(host)} has not; give a check without a port`,
    })),
  ]
}

const needsAddress =
  'goes by the address of a client, and clients of a unix socket have none; leave it out, or listen on tcp://'

const notAPath =
  'is for a route that listens at a path, like unix:/run/db.sock; leave it out'

/** Of those of some options that are given. */
const faultsOf = (
  raw: object,
  names: readonly string[],
  message: string,
): readonly ShapeFault[] =>
  names.filter(name => Object.hasOwn(raw, name)).map(name => ({ path: [name], message }))

/** What can't be read has its fault already. */
const checkPort = (check: unknown): unknown => {
  if (typeof check === 'object' && check !== null) return peek(check, 'port')
  const read = typeof check === 'string' ? readCheck(check) : ''
  return typeof read === 'string' ? undefined : read.port
}

/** Options of routes that do something under UDP, or have a fault of their own there. */
const forUdp: ReadonlySet<string> = new Set([
  'name',
  'affinity',
  'balance',
  'slowStart',
  'check',
  'onDown',
  'whenAllDown',
  'allow',
  'deny',
  ...Object.keys(socketOptions),
])

const tcpOptions = [...Object.keys(routeOptions), 'serverNames'].filter(
  name => !forUdp.has(name),
)

const forTcp = 'is for TCP; leave it out, or listen on tcp://'

const idleFaults = (raw: object, protocol: Protocol | undefined): ShapeFault[] =>
  idleOptions(raw, true)
    // Under UDP there is a fault of it already.
    .filter(({ name }) => protocol !== 'UDP' || !tcpOptions.includes(name))
    .map(({ name, message }) => ({ path: [name], message }))

const logFaults = (raw: object): readonly ShapeFault[] => {
  const to = peek(raw, 'accessLogTo')
  // What can't be read has its fault already.
  const isRead = typeof to === 'string' && readLogDestination(to) !== undefined
  const isIdle = isRead && !Object.hasOwn(raw, 'accessLog')
  const message = 'does nothing without accessLog; give that, too'
  return isIdle ? [{ path: ['accessLogTo'], message }] : []
}

/** The first clash of any, with its route; '' where there is none. */
export const clashText = (routes: readonly Route[]): string => {
  const clashes = clashesOf(routes)
  const at = clashes.findIndex(({ length }) => length > 0)
  const [clash] = clashes[at] ?? []
  return clash === undefined ? '' : `route ${show(routes[at]?.text)}: ${clash.message}`
}

/** Why a route can't be beside those before it. */
export interface Clash {
  readonly field: 'listen' | 'name'
  readonly message: string
}

/** Of each route its clashes with those before it, in the order of `routes`. */
export const clashesOf = (routes: readonly Route[]): readonly (readonly Clash[])[] => {
  const byListen = new Map<string, Route>()
  const names = new Set<string>()
  return routes.map(route => {
    const listen = listenText(route.protocol, route.listen)
    const holder = byListen.get(listen)
    if (holder === undefined) byListen.set(listen, route)
    // One that is called by where it listens has the one clash, not two.
    else if (isByListen(route)) return [listenClash(listen, holder)]
    const isTwin = names.has(route.name)
    names.add(route.name)
    return [
      ...(holder === undefined ? [] : [listenClash(listen, holder)]),
      ...(isTwin ? [nameClash(route)] : []),
    ]
  })
}

const isByListen = ({ name, protocol, listen }: Route): boolean =>
  name === nameByListen({ protocol, ...listen })

const listenClash = (listen: string, { text }: Route): Clash => ({
  field: 'listen',
  message: `${listen} is taken by route ${show(text)}; give each route an address or port of its own`,
})

const nameClash = ({ name }: Route): Clash => ({
  field: 'name',
  message: `${show(name)} is the name of another route; give each one of its own`,
})
