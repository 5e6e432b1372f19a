import type { ConnectionLimits, TrafficOptions } from '../model/traffic.ts'
import { type ClientKey, ClientTable } from './client-table.ts'
import { newSharedPlaces, SharedPlaces } from './shared-places.ts'
import { dueAfter } from './arrival-rate.ts'

/** What limits of a route count in, for all workers of a listener. */
export interface LimiterMemory {
  readonly places: SharedArrayBuffer
  readonly rate: SharedArrayBuffer
}

export const newLimiterMemory = (): LimiterMemory => ({
  places: newSharedPlaces().memory,
  rate: newSharedRate().memory,
})

/** The limit that a connection would have broken, as the detail of its record. */
export type BrokenLimit =
  | 'max-route-connections'
  | 'max-route-rate'
  | 'max-client-connections'
  | 'max-client-rate'

/** Whether a listener takes one connection more. What is of a client is each worker's own. */
export class ConnectionLimiter {
  limits: ConnectionLimits = {}
  readonly #places: SharedPlaces
  readonly #rate: SharedRate
  readonly #clients = new ClientTable()

  constructor({ places, rate }: LimiterMemory) {
    this.#places = new SharedPlaces(places)
    this.#rate = new SharedRate(rate)
  }

  /**
   * Undefined: it may come, and counts until it has `ended`. A client that is over its own limits uses up
   * nothing of the route's.
   */
  take(client: ClientKey, now: number): BrokenLimit | undefined {
    const { routeConnections = Infinity, routeRate } = this.limits
    const over = this.#clients.over(client, this.limits, now)
    if (over !== undefined) return over
    if (!this.#places.take(routeConnections)) return 'max-route-connections'
    if (routeRate !== undefined && !this.#rate.take(routeRate, now)) {
      this.#places.free()
      return 'max-route-rate'
    }
    this.#clients.begun(client, this.limits, now)
    return undefined
  }

  /** What `take` would return now; nothing is counted. */
  wouldBreak(client: ClientKey, now: number): BrokenLimit | undefined {
    const { routeConnections = Infinity, routeRate } = this.limits
    const over = this.#clients.over(client, this.limits, now)
    if (over !== undefined) return over
    if (this.#places.taken >= routeConnections) return 'max-route-connections'
    const isTooOften = routeRate !== undefined && !this.#rate.has(routeRate, now)
    return isTooOften ? 'max-route-rate' : undefined
  }

  /** One that was there before there were limits. */
  adopt(client: ClientKey, now: number): void {
    this.#places.take(Infinity)
    this.#clients.begun(client, {}, now)
  }

  ended(client: ClientKey, now: number): void {
    this.#places.free()
    this.#clients.ended(client, now)
  }
}

/** Where a connection counts until it has ended. */
export interface Counted {
  readonly limiter: ConnectionLimiter
  readonly client: ClientKey
}

/** With the limits of a listener; undefined when it has none. */
export const limiterFor = (
  limiter: ConnectionLimiter | undefined,
  { limits }: TrafficOptions,
): ConnectionLimiter | undefined => {
  if (limiter === undefined || limits === undefined) return undefined
  limiter.limits = limits
  return limiter
}

/** Whether it matters that a client comes to the same worker always. */
export const limitsClients = ({
  clientConnections,
  clientRate,
}: ConnectionLimits = {}): boolean =>
  clientConnections !== undefined || clientRate !== undefined

/** Of what is in the memory, in a millisecond. */
const perMs = 1e6

export const newSharedRate = (): SharedRate => new SharedRate(new SharedArrayBuffer(8))

/** A rate that several threads share, who agree on the time: one cell, changed at once or not at all. */
export class SharedRate {
  readonly memory: SharedArrayBuffer
  /** When the next is due, in nanoseconds; see `dueAfter`. */
  readonly #due: BigInt64Array

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory
    this.#due = new BigInt64Array(memory)
  }

  /** Whether one more may come; it is not counted. */
  has(perSecond: number, now: number): boolean {
    const due = Number(Atomics.load(this.#due, 0)) / perMs
    return dueAfter(due, now, perSecond) !== undefined
  }

  /** Whether one more may come; if so, it is counted. */
  take(perSecond: number, now: number): boolean {
    for (;;) {
      const before = Atomics.load(this.#due, 0)
      const due = dueAfter(Number(before) / perMs, now, perSecond)
      if (due === undefined) return false
      const after = BigInt(Math.round(due * perMs))
      if (Atomics.compareExchange(this.#due, 0, before, after) === before) return true
    }
  }
}
