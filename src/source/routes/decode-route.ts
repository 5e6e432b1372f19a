import { readCheck } from '../../health/check-option.ts'
import { balancePolicyOf } from '../../model/balance-policies.ts'
import type { Protocol } from '../../model/service.ts'
import type { RetryOptions } from '../../model/traffic.ts'
import { type AddressPort, familyOf, joinHostPort, wildcardOf } from '../../util/ip.ts'
import { show, peek } from '../../util/printable.ts'
import { isUnix, unixPlace, withAccess } from '../../util/unix-address.ts'
import { decodeOptions, idleOptions, type Ways, withDefaults } from '../options/option.ts'
import { plainName } from './dns/dns-message.ts'
import {
  backendText,
  isLoop,
  type Route,
  type RouteBackend,
  type RoutePool,
} from './route.ts'
import { type Listen, readListen, readTarget, type Target } from './route-address.ts'
import { allOptions, type RawRoute, socketOptions, socketOwner } from './route-fields.ts'
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
  const all = listensOf(raw).map(({ listen }) => listen)
  const [first, ...more] = all as [Listen, ...Listen[]]
  const { protocol } = first
  const tiers = raw.tiers ?? [raw.endpoints ?? []]
  const backends = tiers.flatMap((targets, tier) =>
    targets.map((given): RouteBackend => ({ ...(readTarget(given) as Target), tier })),
  )
  const name = raw.name ?? nameByListen(first)
  const placed = ({ address, port }: Listen): AddressPort => ({
    address: withOwner(address, raw),
    port,
  })
  const pools = poolsOf(raw)
  return {
    text: text ?? raw.name ?? all.map(one => listenText(protocol, one)).join(','),
    name,
    protocol,
    listens: [placed(first), ...more.map(placed)],
    backends: pools === undefined ? backends : allOf(backends, pools),
    ...(pools !== undefined && {
      pools,
      others: backends.length > 0 ? backends : undefined,
    }),
    affinityMs: 0,
    check: undefined,
    onDown: 'keep',
    onGone: 'keep',
    lists: undefined,
    ...withDefaults(decodeOptions(allOptions, raw), ways.earlyClose, name),
    ...(protocol === 'UDP' && { retry: udpRetry(raw) }),
  }
}

/** As a file has them, where early closes are retried unless that is switched off. */
const ways: Ways = { nameOf: name => name, earlyClose: true }

/** An endpoint that answers nothing has failed where others answer; one-way senders get no replies. */
const udpRetry = ({ udpSpread }: RawRoute): RetryOptions | undefined =>
  udpSpread === undefined
    ? { earlyClose: false, replay: 0, expectsReplies: true }
    : undefined

/** Where to listen, with who may connect there. */
const withOwner = (address: string, raw: RawRoute): string => {
  const [, uid, gid] = socketOwner.exec(raw.socketOwner ?? '') ?? []
  return address.startsWith('unix:/')
    ? withAccess(address, { mode: raw.socketMode, uid, gid })
    : address
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

/**
 * What no field shows by itself: fields that are at odds, an endpoint that is there twice or is
 * the route itself. Of any value: what can't be read has its fault already.
 */
export const routeFaults = (raw: unknown): ShapeFault[] => {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) return []
  const placed = listensOf(raw)
  const listens = placed.map(({ listen }) => listen)
  const [protocol] = listens.map(listen => listen.protocol)
  return [
    ...listenFaults(placed),
    ...placeFaults(raw),
    ...targetFaults(targetsOf(raw), listens),
    ...poolFaults(raw, listens),
    ...protocolFaults(raw, protocol),
    ...unixFaults(raw, listens, targetsOf(raw)),
    ...idleFaults(raw, protocol),
  ]
}

interface PlacedListen {
  readonly listen: Listen
  readonly path: ShapeFault['path']
}

/** Those that can be read. */
const listensOf = (raw: object): readonly PlacedListen[] => {
  const given = peek(raw, 'listen')
  const texts: readonly unknown[] = Array.isArray(given) ? given : [given]
  return texts.flatMap((text, i) => {
    const listen = typeof text === 'string' ? readListen(text) : ''
    const path = Array.isArray(given) ? ['listen', i] : ['listen']
    return typeof listen === 'string' ? [] : [{ listen, path }]
  })
}

const listenFaults = ([first, ...others]: readonly PlacedListen[]): ShapeFault[] =>
  others
    .filter(({ listen }) => listen.protocol !== first?.listen.protocol)
    .map(({ listen, path }) => ({
      path,
      message: `is ${listen.protocol}, but the first address is ${first?.listen.protocol}; give each protocol a route of its own`,
    }))

const placeFaults = (raw: object): ShapeFault[] => {
  const hasEndpoints = Object.hasOwn(raw, 'endpoints')
  if (hasEndpoints && Object.hasOwn(raw, 'tiers'))
    return [{ path: ['tiers'], message: 'conflicts with endpoints; leave one out' }]
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
  listens: readonly Listen[],
): ShapeFault[] => {
  const seen = new Set<string>()
  return targets.flatMap(({ path, ...target }) => {
    const { host, port } = target
    const key = backendText(target)
    const isTwin = seen.has(key)
    seen.add(key)
    if (isTwin) return [{ path, message: `${show(key)} is given twice; give it once` }]
    return isLoop(listens, host, port)
      ? [{ path, message: `${show(key)} is the route itself; give another port` }]
      : []
  })
}

/** Of each pool by itself: one endpoint may be in several. */
const poolFaults = (raw: object, listens: readonly Listen[]): ShapeFault[] => {
  const pools: unknown = peek(raw, 'serverNames')
  if (!Array.isArray(pools)) return []
  const seen = new Set<string>()
  return pools.flatMap((pool: unknown, i): ShapeFault[] => {
    if (typeof pool !== 'object' || pool === null) return []
    const at: ShapeFault['path'][number][] = ['serverNames', i]
    const faults = targetFaults(targetsOf(pool), listens).map(
      ({ path, message }): ShapeFault => ({ path: at.concat(path), message }),
    )
    const [names, alpn] = [peek(pool, 'names'), peek(pool, 'alpn')]
    const key = JSON.stringify([names, alpn])
    const isTwin = seen.has(key)
    seen.add(key)
    if (names === undefined && alpn === undefined)
      faults.push({ path: at, message: 'has neither names nor alpn; give one of them' })
    else if (isTwin)
      faults.push({
        path: at,
        message: 'is for the same clients as another pool; merge them',
      })
    return faults
  })
}

/** What a route can't have where it listens on, or goes to, a unix socket; and the other way round. */
const unixFaults = (
  raw: object,
  listens: readonly Listen[],
  targets: readonly PlacedTarget[],
): readonly ShapeFault[] => {
  const given = (name: string): boolean => Object.hasOwn(raw, name)
  if (listens.length === 0) return []
  const sockets = targets.filter(({ host }) => isUnix(host))
  return [
    ...(listens.some(({ address }) => isUnix(address)) ? addressFaults(raw, given) : []),
    ...(listens.some(({ address }) => address.startsWith('unix:/'))
      ? []
      : Object.keys(socketOptions).filter(given).map(notAPath)),
    ...(listens[0]?.protocol === 'UDP'
      ? sockets.map(({ host, path }) => ({
          path,
          message: `${show(host)} is for TCP; give an address and a port, or listen on tcp://`,
        }))
      : []),
    ...(checkPort(peek(raw, 'check')) === undefined
      ? []
      : sockets.slice(0, 1).map(({ host }) => ({
          path: ['check'],
          message: `needs a port, which ${show(host)} does not have; give a check without a port`,
        }))),
  ]
}

const addressFaults = (raw: object, given: (name: string) => boolean): ShapeFault[] => [
  ...Object.entries(allOptions)
    .filter(([name, { isByAddress }]) => isByAddress && given(name))
    .map(([name]) => needsAddress(name)),
  ...(balancePolicyOf(peek(raw, 'balance'))?.isByClient ? [needsAddress('balance')] : []),
]

const needsAddress = (name: string): ShapeFault => ({
  path: [name],
  message:
    'needs the address of a client, and clients of a unix socket have none; leave it out, or listen on tcp://',
})

const notAPath = (name: string): ShapeFault => ({
  path: [name],
  message: 'is for a route that listens at a path, like unix:/run/db.sock; leave it out',
})

/** What can't be read has its fault already. */
const checkPort = (check: unknown): unknown => {
  if (typeof check === 'object' && check !== null) return peek(check, 'port')
  const read = typeof check === 'string' ? readCheck(check) : ''
  return typeof read === 'string' ? undefined : read.port
}

/** Whether it is about another protocol than that of the route. */
const isForOther = (name: string, protocol: Protocol | undefined): boolean => {
  const own = allOptions[name]?.protocol
  return own !== undefined && protocol !== undefined && own !== protocol
}

const protocolFaults = (raw: object, protocol: Protocol | undefined): ShapeFault[] => {
  const other = protocol === 'UDP' ? 'TCP' : 'UDP'
  return Object.keys(raw)
    .filter(name => isForOther(name, protocol))
    .map(name => ({
      path: [name],
      message: `is for ${other}; leave it out, or listen on ${other.toLowerCase()}://`,
    }))
}

const idleFaults = (raw: object, protocol: Protocol | undefined): ShapeFault[] =>
  idleOptions(allOptions, raw, ways)
    // Of what is for the other protocol there is a fault already.
    .filter(({ name }) => !isForOther(name, protocol))
    .map(({ name, message }) => ({ path: [name], message }))

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
  const held = new Map<string, { listen: string; route: Route }>()
  const names = new Set<string>()
  return routes.map(route => {
    const found = route.listens.flatMap(one => {
      const listen = listenText(route.protocol, one)
      const all = { ...one, address: wildcardOf(familyOf(one.address) ?? 'IPv4') }
      const whole = listenText(route.protocol, all)
      const holder =
        held.get(listen) ?? held.get(listen === whole ? `in ${whole}` : whole)
      if (holder !== undefined) return [listenClash(listen, route, holder)]
      for (const key of [listen, `in ${whole}`]) held.set(key, { listen, route })
      return []
    })
    // One that is called by where it listens has the one clash, not two.
    if (found.length > 0 && isByListen(route)) return found
    const isTwin = names.has(route.name)
    names.add(route.name)
    return [...found, ...(isTwin ? [nameClash(route)] : [])]
  })
}

const isByListen = ({ name, protocol, listens: [first] }: Route): boolean =>
  name === nameByListen({ protocol, ...first })

const listenClash = (
  listen: string,
  route: Route,
  holder: { readonly listen: string; readonly route: Route },
): Clash => ({
  field: 'listen',
  message:
    holder.route !== route
      ? `${listen} is taken by route ${show(holder.route.text)}; give each route an address or port of its own`
      : holder.listen === listen
        ? `${listen} is given twice; give it once`
        : `${listen} is taken by ${holder.listen}: one of them is all addresses; leave one out`,
})

const nameClash = ({ name }: Route): Clash => ({
  field: 'name',
  message: `${show(name)} is the name of another route; give each route its own name`,
})
