import { type AddressRanges, isAmong, rangesOf } from '../util/address-ranges.ts'
import { addressWords } from '../util/cidr.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { withoutZone } from '../util/ip.ts'
import { TokenBucket } from '../util/token-bucket.ts'
import type { Cause, ConnectionRecord } from './cause.ts'
import { ConnectionIds } from './open-connections.ts'

export interface EndedConnection extends ConnectionRecord {
  /** Epoch milliseconds. */
  readonly endedAt: number
}

/** Which ends of TCP connections are wanted. */
interface EndedFilter {
  /** As they were asked for: that is what makes two polls the same, as their listeners come and go. */
  readonly routes: readonly string[]
  /** Only abnormal ends. */
  readonly failed: boolean
  /** Of clients in these blocks only, or with these addresses; empty: of all. */
  readonly clients: readonly string[]
  /** How many are kept a second by each thread; the others are counted. */
  readonly perSecond: number
}

export interface EndedQuery extends EndedFilter {
  /** Names of those that the routes have now. */
  readonly listeners: readonly string[]
  /** `next` of the poll before; undefined: this is the first, from which on they are kept. */
  readonly after?: string | undefined
  /** How many are returned at most, the newest; the others are counted. Undefined: all that are kept. */
  readonly limit?: number | undefined
}

export interface EndedPage {
  readonly ended: readonly EndedConnection[]
  /** How many more have ended since the poll before. */
  readonly leftOut: number
  /** Others have, and nobody knows how many: nobody kept them, or who did has died. */
  readonly gap: boolean
  readonly next: string
  /** Too many poll with different filters: there is no room for this one. */
  readonly isFull: boolean
}

/** Kept of one filter, in each thread. */
const mostKept = 1000
/** Filters at a time. */
const mostRings = 8
/** A filter not polled for so many milliseconds makes room for others: most poll each second. */
const idleMs = 3000
/** Milliseconds for which they are kept when nobody polls. */
export const leaseMs = 10_000

/**
 * Connections as they end, for subscribers that poll: a ring for each filter, made by the first poll
 * and dropped when there was none for `leaseMs`. Subscribers have no name and need not unsubscribe.
 * Without any of them nothing is kept.
 */
export class EndedConnections {
  readonly #clock: Clock
  readonly #ids: ConnectionIds
  /** The one polled last is the last. */
  readonly #rings = new Map<string, Ring>()

  constructor(clock: Clock, thread: number) {
    this.#clock = clock
    this.#ids = new ConnectionIds(thread)
  }

  /** There is a subscriber. */
  get isWatched(): boolean {
    return this.#rings.size > 0
  }

  /**
   * Who gets the record of a connection that ends now; undefined: nobody. To be called once for
   * each, as it counts them. `client`: its IP address, which is asked for only where it matters.
   */
  subscribers(
    listener: string,
    cause: Cause,
    client: () => string,
  ): readonly Ring[] | undefined {
    if (this.#rings.size === 0) return undefined
    const subscribers = [...this.#rings.values()].filter(
      ring => ring.wants(listener, cause, client) && ring.hasRoom(),
    )
    return subscribers.length === 0 ? undefined : subscribers
  }

  poll({ after, listeners, limit, ...filter }: EndedQuery): EndedPage {
    const key = keyOf(filter)
    const ring = this.#rings.get(key) ?? this.#open(filter)
    if (ring === undefined)
      return { ended: [], leftOut: 0, gap: false, next: after ?? '', isFull: true }
    this.#drop(key)
    this.#rings.set(key, ring)
    ring.polledAt = this.#clock.now()
    ring.lease = this.#clock.setTimeout(() => this.#drop(key), leaseMs)
    // It must not keep a process from ending.
    ring.lease.unref?.()
    ring.listeners = new Set(listeners)
    return ring.since(after, limit)
  }

  #open(filter: EndedFilter): Ring | undefined {
    if (this.#rings.size >= mostRings) {
      const [[oldest, { polledAt }] = ['', { polledAt: Infinity }]] = this.#rings
      if (this.#clock.now() - polledAt <= idleMs) return undefined
      this.#drop(oldest)
    }
    return new Ring(this.#clock, this.#ids.idOf(this.#ids.next()), filter)
  }

  #drop(key: string): void {
    this.#clock.clearTimeout(this.#rings.get(key)?.lease)
    this.#rings.delete(key)
  }
}

/** Subscribers with the same filter share what is kept. */
const keyOf = ({ routes, failed, clients, perSecond }: EndedFilter): string =>
  JSON.stringify([routes.toSorted(), failed, clients.toSorted(), perSecond])

/** The last that ended, of those that one filter lets through. */
class Ring {
  lease: Timer | undefined
  polledAt = 0
  /** Names, as of the last poll. */
  listeners: ReadonlySet<string> = new Set()
  readonly #id: string
  readonly #failed: boolean
  readonly #clients: AddressRanges | undefined
  readonly #bucket: TokenBucket
  /** All that have ended are numbered, 1, 2, ..., whether they are kept or not. */
  #last = 0
  #records: (readonly [number: number, one: EndedConnection])[] = []

  constructor(
    clock: Clock,
    id: string,
    { failed, clients, perSecond }: Omit<EndedFilter, 'routes'>,
  ) {
    this.#id = id
    this.#failed = failed
    this.#clients = clients.length === 0 ? undefined : rangesOf(clients)
    this.#bucket = new TokenBucket(clock, perSecond, 1000 / perSecond)
  }

  wants(listener: string, cause: Cause, client: () => string): boolean {
    if (this.#failed && cause === '--') return false
    if (!this.listeners.has(listener)) return false
    if (this.#clients === undefined) return true
    const words = addressWords(withoutZone(client()))
    return words !== undefined && isAmong(this.#clients, words)
  }

  /** Counts one more; false: it is one too many. */
  hasRoom(): boolean {
    this.#last += 1
    if (this.#bucket.msUntil(1) > 0) return false
    this.#bucket.take()
    return true
  }

  /** The one that was counted last. */
  add(record: ConnectionRecord): void {
    if (this.#records.length === mostKept) this.#records.shift()
    this.#records.push([this.#last, { ...record, endedAt: Date.now() }])
  }

  /** What has ended since a poll, whose `next` this was; the newest `limit` of it. */
  since(after: string | undefined, limit = mostKept): EndedPage {
    const next = `${this.#id}.${this.#last}`
    const seen = after === undefined ? this.#last : this.#numberIn(after)
    if (seen === undefined)
      return { ended: [], leftOut: 0, gap: true, next, isFull: false }
    const ended = this.#records
      .slice(-limit)
      .flatMap(([number, one]) => (number > seen ? [one] : []))
    const leftOut = this.#last - seen - ended.length
    return { ended, leftOut, gap: false, next, isFull: false }
  }

  /** Undefined where it is none of this ring's. */
  #numberIn(next: string): number | undefined {
    const [, id, digits] = /^([^.]+)\.(\d{1,15})$/.exec(next) ?? []
    return id === this.#id ? Math.min(Number(digits), this.#last) : undefined
  }
}
