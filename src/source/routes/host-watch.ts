import pRetry from 'p-retry'
import type { Clock, Timer } from '../../util/clock.ts'
import { canonicalIp } from '../../util/ip.ts'
import { addressFault } from '../decode/fields.ts'
import { printable } from '../../util/printable.ts'
import type { Resolve, Resolved } from './resolve-host.ts'

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
  /** A resolver that says nothing for so long has failed. */
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

/** Nobody has more; a resolver that says so is broken or bought. */
const mostAddresses = 256

/** Keeps one host's addresses up to date; the last good ones stand through failures. */
export class HostWatch {
  readonly host: string
  readonly #resolve: Resolve
  readonly #clock: Clock
  readonly #events: HostWatchEvents
  readonly #times: HostWatchTimes
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
      try {
        const ttlMs = await this.#resolveAtLast(signal, attempted)
        await this.#waited(ttlMs, signal)
      } catch (error) {
        // Only `again` and `close` get here: failures are retried for ever.
        if (!signal.aborted) throw error
      }
    }
  }

  /** Resolves now, whatever it was waiting for. */
  again(): void {
    this.#round.abort()
  }

  close(): void {
    this.#closed = true
    this.#round.abort()
  }

  #resolveAtLast(signal: AbortSignal, attempted: () => void): Promise<number> {
    const { retryMs, longestRetryMs } = this.#times
    return pRetry(() => this.#attempt(signal).finally(attempted), {
      retries: Infinity,
      minTimeout: retryMs,
      // p-retry's jitter ends where this begins, so this has some of its own: hosts that
      // failed together are not asked for together for ever.
      maxTimeout: Math.max(retryMs, longestRetryMs * (0.5 + Math.random() / 2)),
      randomize: true,
      signal,
    })
  }

  /** One attempt: the TTL to wait for, in milliseconds. */
  async #attempt(signal: AbortSignal): Promise<number> {
    try {
      const found = await this.#answer(signal)
      this.#addresses = usable(found.addresses)
      this.#error = ''
      this.#events.resolved()
      return clampedTtl(found.ttlMs)
    } catch (cause) {
      if (signal.aborted) throw cause
      const reason = cause instanceof Error ? cause.message : String(cause)
      // Never a TypeError, which p-retry takes for a mistake of the program and gives up on.
      const error = new Error(`cannot resolve ${this.host}: ${printable(reason, 300)}`, {
        cause,
      })
      const isNews = error.message !== this.#error
      this.#error = error.message
      if (isNews) this.#events.failed(error)
      throw error
    }
  }

  /** The resolver's answer, in time or not at all. */
  #answer(signal: AbortSignal): Promise<Resolved> {
    const { attemptMs } = this.#times
    const over = new AbortController()
    const late = this.#waited(attemptMs, AbortSignal.any([signal, over.signal])).then(
      () => {
        throw new Error(`no answer within ${attemptMs / 1000} s`)
      },
    )
    const answer = Promise.resolve(this.host).then(this.#resolve)
    return Promise.race([answer, late]).finally(() => {
      over.abort()
      late.catch(() => {})
    })
  }

  /** Waits; rejects at once when the signal says so. */
  #waited(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(abortReason)
      let timer: Timer | undefined
      const abort = () => {
        this.#clock.clearTimeout(timer)
        reject(abortReason)
      }
      timer = this.#clock.setTimeout(() => {
        signal.removeEventListener('abort', abort)
        resolve()
      }, ms)
      signal.addEventListener('abort', abort, { once: true })
    })
  }
}

const abortReason = new Error('called off')

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
