import { Backoff } from '../../util/backoff.ts'
import type { Clock } from '../../util/clock.ts'
import { canonicalIp } from '../../util/ip.ts'
import { addressFault } from '../decode/fields.ts'
import { printable } from '../../util/printable.ts'
import { orAborted, wait } from '../../util/wait.ts'
import type { Resolve, Resolved } from './resolve-host.ts'
import { messageOf } from '../../util/usher-error.ts'

export interface HostWatchEvents {
  /** After each success, whether or not the addresses are others than before. */
  resolved(): void
  /** After the first failure of a row, and after one that failed in another way. */
  failed(error: Error): void
}

export interface HostWatchTimes {
  /** The first pause after a failure, and the longest. */
  readonly retryMs: number
  readonly longestRetryMs: number
  /** A resolver that does not answer for so long has failed. */
  readonly attemptMs: number
}

export const hostWatchTimes: HostWatchTimes = {
  retryMs: 1000,
  longestRetryMs: 30_000,
  attemptMs: 10_000,
}

const lowestTtlMs = 1000
const highestTtlMs = 300_000
const unknownTtlMs = 30_000

/** More than any host has; a resolver that gives more is broken or hostile. */
const mostAddresses = 256

/** Keeps one host's addresses up to date; the last good ones stand through failures. */
export class HostWatch {
  readonly host: string
  readonly #resolve: Resolve
  readonly #clock: Clock
  readonly #events: HostWatchEvents
  readonly #times: HostWatchTimes
  readonly #backoff: Backoff
  #addresses: readonly string[] = []
  #error = ''
  #round = new AbortController()
  #closed = false

  constructor(
    host: string,
    resolve: Resolve,
    clock: Clock,
    events: HostWatchEvents,
    times: HostWatchTimes,
  ) {
    this.host = host
    this.#resolve = resolve
    this.#clock = clock
    this.#events = events
    this.#times = times
    this.#backoff = new Backoff({
      firstMs: times.retryMs,
      // Its jitter makes each pause up to twice as long.
      mostMs: times.longestRetryMs / 2,
      random: Math.random,
    })
  }

  /** Canonical, sorted; empty until the first success. */
  get addresses(): readonly string[] {
    return this.#addresses
  }

  /** Why the last attempt failed; '' when it succeeded. */
  get error(): string {
    return this.#error
  }

  /** Goes on until `close`. `attempted` is called when an attempt has ended. */
  async run(attempted: () => void): Promise<void> {
    while (!this.#closed) {
      this.#round = new AbortController()
      const { signal } = this.#round
      const pauseMs = await this.#attempt(signal)
      attempted()
      await wait(this.#clock, pauseMs, signal)
    }
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
      this.#addresses = usable(found.addresses)
      this.#error = ''
      this.#backoff.reset()
      this.#events.resolved()
      return clampedTtl(found.ttlMs)
    } catch (error) {
      if (signal.aborted) return 0
      this.#failed(error)
      return this.#backoff.next()
    }
  }

  #failed(cause: unknown): void {
    const reason = messageOf(cause)
    const message = `cannot resolve ${this.host}: ${printable(reason, 300)}`
    if (message === this.#error) return
    this.#error = message
    this.#events.failed(new Error(message, { cause }))
  }

  /** The resolver's answer, in time or not at all. */
  async #answer(signal: AbortSignal): Promise<Resolved> {
    const { attemptMs } = this.#times
    const over = new AbortController()
    const late = new Error(`no answer within ${attemptMs / 1000} s`)
    const timer = this.#clock.setTimeout(() => over.abort(late), attemptMs)
    try {
      const either = AbortSignal.any([signal, over.signal])
      return await orAborted(this.#resolve(this.host), either)
    } finally {
      this.#clock.clearTimeout(timer)
    }
  }
}

const clampedTtl = (ttlMs: number | undefined): number =>
  ttlMs === undefined || Number.isNaN(ttlMs)
    ? unknownTtlMs
    : Math.min(highestTtlMs, Math.max(lowestTtlMs, ttlMs))

const usable = (addresses: readonly string[]): string[] => {
  const found = new Set<string>()
  for (const given of addresses)
    if (addressFault(given) === '') found.add(canonicalIp(given) ?? given)
  if (found.size === 0) throw new Error('the answer has no usable address')
  // Sorted, so that a server that rotates its answers changes nothing.
  return [...found].toSorted().slice(0, mostAddresses)
}
