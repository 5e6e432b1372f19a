import { decodeCheck } from '../../health/check-option.ts'
import type { Protocol } from '../../model/service.ts'
import { joinHostPort } from '../../util/ip.ts'
import { peek } from '../../util/json.ts'
import { show } from '../../util/printable.ts'
import { decodeRetry, idleOptions } from '../options/endpoint-options.ts'
import { backendText, isLoop, type Route, type RouteBackend } from './route.ts'
import { type Listen, readListen, readTarget, type Target } from './route-address.ts'
import { type RawRoute, readAffinity } from './route-fields.ts'
import type { ShapeFault } from './shape-faults.ts'

/** `tcp-127-0-0-1-15432`: one for each listen address and protocol. */
const nameByListen = ({ protocol, address, port }: Listen): string =>
  `${protocol.toLowerCase()}-${address.replaceAll(/[.:]/g, '-')}-${port}`

/** `tcp://127.0.0.1:15432`. */
const listenText = (
  protocol: Protocol,
  { address, port }: Omit<Listen, 'protocol'>,
): string => `${protocol.toLowerCase()}://${joinHostPort(address, port)}`

/** UDP: an endpoint that answers nothing has failed where others answer. */
const udpRetry = { earlyClose: false, replay: 0, expectsReplies: true }

/** A route that has no faults. `text` is what it is called in messages, if not by name. */
export const decodeRoute = (raw: RawRoute, text?: string): Route => {
  const { protocol, ...listen } = readListen(raw.listen) as Listen
  const tiers = raw.tiers ?? [raw.endpoints ?? []]
  const backends = tiers.flatMap((targets, tier) =>
    targets.map((given): RouteBackend => ({ ...(readTarget(given) as Target), tier })),
  )
  return {
    text: text ?? raw.name ?? listenText(protocol, listen),
    name: raw.name ?? nameByListen({ protocol, ...listen }),
    protocol,
    listen,
    backends,
    affinityMs: raw.affinity === undefined ? 0 : (readAffinity(raw.affinity) ?? 0),
    check: raw.check === undefined ? undefined : decodeCheck(raw.check),
    onDown: raw.onDown ?? 'keep',
    onGone: raw.onGone ?? 'keep',
    retry: protocol === 'TCP' ? decodeRetry(raw, true) : udpRetry,
  }
}

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
    ...udpFaults(raw, listen?.protocol),
    ...idleFaults(raw, listen?.protocol),
  ]
}

const placeFaults = (raw: object): ShapeFault[] => {
  const hasEndpoints = Object.hasOwn(raw, 'endpoints')
  if (hasEndpoints && Object.hasOwn(raw, 'tiers'))
    return [{ path: ['tiers'], message: 'is given beside endpoints; leave one out' }]
  if (hasEndpoints || Object.hasOwn(raw, 'tiers')) return []
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

const udpFaults = (raw: object, protocol: Protocol | undefined): ShapeFault[] =>
  protocol === 'UDP'
    ? ['retryEarlyClose', 'replay', 'answerWithin', 'hold', 'mostHeld', 'onGone']
        .filter(name => Object.hasOwn(raw, name))
        .map(name => ({
          path: [name],
          message: 'is for TCP; leave it out, or listen on tcp://',
        }))
    : []

const idleFaults = (raw: object, protocol: Protocol | undefined): ShapeFault[] =>
  idleOptions(raw, true)
    // Under UDP there is a fault of it already.
    .filter(({ name }) => name !== 'replay' || protocol !== 'UDP')
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
