import { Backoff } from '../../util/backoff.ts'
import { type Clock, orAborted, wait } from '../../util/clock.ts'
import { canonicalIp, joinHostPort } from '../../util/ip.ts'
import { firstFew, printable } from '../../util/printable.ts'
import { hasCode, messageOf } from '../../util/usher-error.ts'
import { addressFault } from '../decode/fields.ts'
import {
  mostPlaces,
  unknownTtlMs,
  type FoundPlaces,
  type Lookup,
  type Place,
} from './place.ts'

export interface HostWatchEvents {
  /** After each success, whether or not the places are others than before. */
  resolved(): void
  /** After the first failure of a row, in part or as a whole, and after one of another kind. */
  failed(error: Error): void
}

export interface HostWatchTimes {
  /** The first pause after a failure, and the longest. */
  readonly retryMs: number
  readonly longestRetryMs: number
  /** A resolver that does not answer for so long has failed. */
  readonly attemptMs: number
  /** An answer is asked for anew after so long, whatever its TTL. */
  readonly longestTtlMs: number
}

export const hostWatchTimes: HostWatchTimes = {
  retryMs: 1000,
  longestRetryMs: 30_000,
  attemptMs: 10_000,
  longestTtlMs: 30_000,
}

/** No name is resolved more often, whatever its TTL and the failures of its endpoints. */
const lowestTtlMs = 1000

interface HostWatchDeps {
  readonly name: string
  readonly lookup: Lookup
  readonly clock: Clock
  readonly events: HostWatchEvents
  readonly times: HostWatchTimes
}

/** Keeps the places of one name up to date; the last good ones stand through failures. */
export class HostWatch {
  readonly #deps: HostWatchDeps
  readonly #backoff: Backoff
  #places: readonly Place[] = []
  #error = ''
  #round = new AbortController()
  /** Ends the pause after an attempt; undefined during one. */
  #pause: AbortController | undefined
  /** The pause that `soon` has cut short already. */
  #hurried: AbortController | undefined
  #startedAt = 0
  #state: 'new' | 'tried' | 'known' = 'new'
  #closed = false

  constructor(deps: HostWatchDeps) {
    this.#deps = deps
    const { times } = deps
    this.#backoff = new Backoff({
      firstMs: times.retryMs,
      // Its jitter makes each pause up to twice as long.
      mostMs: times.longestRetryMs / 2,
      random: Math.random,
    })
  }

  /** Canonical, sorted; empty until the first success. */
  get places(): readonly Place[] {
    return this.#places
  }

  /** What was wrong with the last attempt; '' when nothing was. */
  get error(): string {
    return this.#error
  }

  /** `tried`: an attempt has ended; `known`: with an answer, even if only that there is no such name. */
  get state(): 'new' | 'tried' | 'known' {
    return this.#state
  }

  /** The first attempt takes longer than others are to wait for it. */
  late(): void {
    if (this.#state === 'new' && !this.#closed)
      this.#failed(`cannot resolve ${this.#deps.name}`, 'no answer yet')
  }

  /** Goes on until `close`. `attempted` is called when an attempt has ended. */
  async run(attempted: () => void): Promise<void> {
    while (!this.#closed) {
      this.#round = new AbortController()
      const { signal } = this.#round
      this.#startedAt = this.#deps.clock.now()
      const pauseMs = await this.#attempt(signal)
      attempted()
      const pause = new AbortController()
      this.#pause = pause
      await wait(this.#deps.clock, pauseMs, AbortSignal.any([signal, pause.signal]))
      this.#pause = undefined
      pause.abort()
    }
  }

  /** Resolves once more a second after the last attempt began, or at once if that is over. */
  soon(): void {
    const pause = this.#pause
    if (pause === undefined || this.#hurried === pause) return
    this.#hurried = pause
    const ms = this.#startedAt + lowestTtlMs - this.#deps.clock.now()
    if (ms <= 0) pause.abort()
    else void wait(this.#deps.clock, ms, pause.signal).then(() => pause.abort())
  }

  /** Resolves now, whatever it was waiting for. */
  again(): void {
    this.#backoff.reset()
    this.#round.abort()
  }

  close(): void {
    this.#closed = true
    this.#round.abort()
  }

  /** One attempt: milliseconds until the next. */
  async #attempt(signal: AbortSignal): Promise<number> {
    try {
      const found = await this.#answer(signal)
      const before = found.isPart === true ? this.#places : []
      const { places, faults } = usable({
        ...found,
        places: [...found.places, ...before],
      })
      this.#places = places
      this.#state = 'known'
      const ttlMs = clampedTtl(found.ttlMs, this.#deps.times.longestTtlMs)
      if (faults.length > 0)
        this.#failed(`${this.#deps.name} is resolved in part`, firstFew(faults))
      else this.#recovered()
      this.#deps.events.resolved()
      return faults.length > 0 ? Math.min(ttlMs, this.#backoff.next()) : ttlMs
    } catch (error) {
      if (signal.aborted) return 0
      if (hasCode(error, 'NOT_FOUND')) this.#state = 'known'
      else if (this.#state === 'new') this.#state = 'tried'
      this.#failed(`cannot resolve ${this.#deps.name}`, error)
      return this.#backoff.next()
    }
  }

  #recovered(): void {
    this.#error = ''
    this.#backoff.reset()
  }

  #failed(what: string, cause: unknown): void {
    const message = `${what}: ${printable(messageOf(cause), 300)}`
    if (message === this.#error) return
    this.#error = message
    this.#deps.events.failed(new Error(message, { cause }))
  }

  /** The resolver's answer, in time or not at all. */
  async #answer(signal: AbortSignal): Promise<FoundPlaces> {
    const { attemptMs } = this.#deps.times
    const over = new AbortController()
    const late = new Error(`no answer within ${attemptMs / 1000} s`)
    const timer = this.#deps.clock.setTimeout(() => over.abort(late), attemptMs)
    try {
      const either = AbortSignal.any([signal, over.signal])
      return await orAborted(this.#deps.lookup(either), either)
    } finally {
      over.abort()
      this.#deps.clock.clearTimeout(timer)
    }
  }
}

const clampedTtl = (ttlMs: number | undefined, longestMs: number): number =>
  ttlMs === undefined || Number.isNaN(ttlMs)
    ? Math.min(unknownTtlMs, longestMs)
    : Math.min(longestMs, Math.max(lowestTtlMs, ttlMs))

/**
 * Each place that can be dialled once, those of the first tiers in front, and not too many; whatever
 * their order in the answer.
 */
export const usable = (
  found: FoundPlaces,
): { places: readonly Place[]; faults: readonly string[] } => {
  const byKey = new Map<string, Place>()
  for (const place of found.places) {
    if (addressFault(place.address) !== '') continue
    const address = canonicalIp(place.address) ?? place.address
    const key = joinHostPort(address, place.port)
    const twin = byKey.get(key)
    if (twin === undefined || comesBefore(place, twin))
      byKey.set(key, { ...place, address })
  }
  if (byKey.size === 0) throw new Error('the answer has no usable address')
  // Sorted, so that a server that rotates its answers changes nothing.
  const sorted = [...byKey.keys()].toSorted().flatMap(key => byKey.get(key) ?? [])
  const places = sorted.toSorted((a, b) => a.tier - b.tier).slice(0, mostPlaces)
  const surplus = `the answer has ${byKey.size} addresses, of which ${mostPlaces} are taken`
  return {
    places,
    faults: byKey.size > mostPlaces ? [...found.faults, surplus] : found.faults,
  }
}

const comesBefore = (a: Place, b: Place): boolean =>
  a.tier === b.tier ? a.weight > b.weight : a.tier < b.tier
