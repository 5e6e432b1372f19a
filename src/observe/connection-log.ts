import {
  causeText,
  type Cause,
  type Attempt,
  type ConnectionRecord,
} from '../relay/cause.ts'
import type { AccessBatch, Bind, BindState, RelayObserver } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'
import type { RelayGone } from './health.ts'
import type { Log, LogFields } from './log.ts'
import { TokenBucket } from '../util/token-bucket.ts'
import type { Problem } from '../model/snapshot.ts'
import { isOnLoopback } from '../mode/hybrid-mode.ts'
import { familyOf, joinHostPort } from '../util/ip.ts'
import { listenAdvice } from '../util/listen-at.ts'
import { isUnix } from '../util/unix-address.ts'

export interface ConnectionLogOptions {
  readonly log: Log
  readonly clock: Clock
  /** Failures of one ServicePort that are logged at once; 10. */
  readonly burst?: number
  /** And how many per second after that; 1. */
  readonly perSecond?: number
  /** Hears of ServicePorts all of whose endpoints have failed; there is no record of that. */
  readonly allFailed?: (servicePort: string) => void
  /** Another program has what a listener wants to listen on. */
  readonly portTaken?: (listener: string, bind: Bind) => void
  /** Takes lines of the access log; default: nobody. */
  readonly accessLines?: (batch: AccessBatch) => void
}

/** Ends worth an operator's attention; the others are what clients and endpoints commonly do. */
const failures: ReadonlySet<Cause> = new Set([
  'SC',
  'sC',
  'RC',
  'PR',
  'PH',
  'PN',
  'PO',
  'PL',
  'sQ',
  'KD',
  'cD',
  'sD',
])

/** To a microsecond: what is finer is noise, and 17 digits are hard to read. */
const milliseconds = (ms: number): number => Math.round(ms * 1000) / 1000

/** Refusals cost a microsecond, so that a connection may have dozens of attempts. */
const mostAttempts = 3

const attemptFields = (attempts: readonly Attempt[]): LogFields => {
  const shown = attempts.slice(0, mostAttempts).map(({ endpoint, result, ms }) => ({
    endpoint,
    result,
    ms: milliseconds(ms),
  }))
  const more = attempts.length - shown.length
  return more > 0 ? { attempts: shown, moreAttempts: more } : { attempts: shown }
}

const recordFields = (record: ConnectionRecord): LogFields => ({
  servicePort: record.listener,
  client: record.client,
  endpoint: record.endpoint,
  ...attemptFields(record.attempts),
  bytes: {
    'client->backend': record.bytesToBackend,
    'backend->client': record.bytesToClient,
  },
  dialMs: milliseconds(record.dialMs),
  totalMs: milliseconds(record.totalMs),
  cause: record.cause,
  causeText: causeText[record.cause],
  detail: record.detail,
})

/**
 * Writes what the relay reports. A connection is one record when it has
 * ended: at debug, or at info when it failed. Failures are limited per ServicePort,
 * because one dead Service under load would otherwise fill the disk and hide the rest;
 * with debug on nothing is held back.
 */
export class ConnectionLog implements RelayObserver {
  /** What cannot be listened on now. */
  readonly failingBinds: FailingBinds
  /** Workers of the relay that give no sign of life. */
  readonly hungWorkers = new Set<number>()
  /** Why the process of the relay has ended, and when, while none serves in its place. */
  relayGone: RelayGone | undefined
  readonly allFailed: (servicePort: string) => void
  readonly accessLines: (batch: AccessBatch) => void
  readonly #portTaken: (listener: string, bind: Bind) => void
  readonly #clock: Clock
  readonly #log: Log
  readonly #binds: BindLog
  readonly #debug: boolean
  readonly #info: boolean
  readonly #failures: RecordLimiter
  readonly #faults: RecordLimiter

  constructor(options: ConnectionLogOptions) {
    const { log, clock, burst = 10, perSecond = 1, allFailed = () => {} } = options
    this.allFailed = allFailed
    this.#portTaken = options.portTaken ?? (() => {})
    this.accessLines = options.accessLines ?? (() => {})
    this.#log = log
    this.#clock = clock
    this.#debug = log.isLevelEnabled('debug')
    this.#info = log.isLevelEnabled('info')
    this.#binds = new BindLog(log, clock)
    this.failingBinds = new FailingBinds(clock)
    const limit = { clock, burst, perSecond }
    this.#failures = new RecordLimiter({
      ...limit,
      onQuiet: (servicePort, heldBack) =>
        log.info(
          { servicePort, heldBack },
          `${heldBack} failed connections were not logged one by one`,
        ),
    })
    this.#faults = new RecordLimiter({
      ...limit,
      onQuiet: (servicePort, heldBack) =>
        log.error(
          { servicePort, heldBack },
          `${heldBack} faults were not logged one by one`,
        ),
    })
  }

  wants(cause: Cause): boolean {
    return this.#debug || (this.#info && failures.has(cause))
  }

  connectionClosed(record: ConnectionRecord): void {
    if (!this.wants(record.cause)) return
    if (!failures.has(record.cause)) {
      this.#log.debug(recordFields(record), 'connection closed')
      return
    }
    const heldBack = this.#debug ? 0 : this.#failures.take(record.listener)
    if (heldBack === undefined) return
    const fields = recordFields(record)
    this.#log.info(heldBack > 0 ? { ...fields, heldBack } : fields, 'connection failed')
  }

  bindChanged(listener: string, state: BindState): void {
    this.failingBinds.changed(listener, state)
    this.#binds.changed(listener, state)
    if (state.state === 'failed' && state.error === 'EADDRINUSE')
      this.#portTaken(listener, state.bind)
  }

  acceptPaused(paused: boolean, used: number, limit: number): void {
    if (paused)
      this.#log.warn(
        { used, limit },
        'nearly out of file descriptors: new connections wait; raise the limit (ulimit -n)',
      )
    else this.#log.info({ used, limit }, 'accepting new connections again')
  }

  workerHung(thread: number, hung: boolean): void {
    if (hung) {
      this.hungWorkers.add(thread)
      this.#log.error(
        { worker: thread },
        'a relay worker does not respond: restarting all workers and resetting their connections',
      )
    } else if (this.hungWorkers.delete(thread)) {
      this.#log.info({ worker: thread }, 'the relay worker has been restarted')
    }
  }

  processGone(reason: string): void {
    const since = this.relayGone?.since ?? this.#clock.now()
    this.relayGone = reason === '' ? undefined : { reason, since }
  }

  fault(listener: string, error: Error): void {
    const heldBack = this.#faults.take(listener)
    if (heldBack === undefined) return
    const fields = { servicePort: listener, err: error }
    this.#log.error(heldBack > 0 ? { ...fields, heldBack } : fields, 'fault in the relay')
  }

  /** Says what is still held back; the timers end. */
  close(): void {
    this.#failures.close()
    this.#faults.close()
    this.#binds.close()
  }
}

interface LimiterOptions {
  readonly clock: Clock
  /** Records of one key that pass at once. */
  readonly burst: number
  /** Records of one key that pass per second after that. */
  readonly perSecond: number
  /** Called with what was held back and not reported yet when a key has become quiet. */
  readonly onQuiet: (key: string, heldBack: number) => void
}

interface Limited {
  readonly bucket: TokenBucket
  seenAt: number
  heldBack: number
}

/** A key without records for so many milliseconds is quiet. */
const quietMs = 5000

/**
 * Limits how many records each key may write, with a token bucket per key. Buckets that
 * are full again are forgotten, so there are only as many as keys that were busy lately.
 */
export class RecordLimiter {
  readonly #options: LimiterOptions
  readonly #limited = new Map<string, Limited>()
  #timer: Timer | undefined

  constructor(options: LimiterOptions) {
    this.#options = options
  }

  /** How many records were held back before this one, or undefined to hold it back. */
  take(key: string): number | undefined {
    const limited = this.#of(key)
    if (limited.bucket.msUntil(1) > 0) {
      limited.heldBack += 1
      return undefined
    }
    const { heldBack } = limited
    limited.bucket.take()
    limited.heldBack = 0
    return heldBack
  }

  /** Says what is still held back, and stops. */
  close(): void {
    this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
    for (const [key, limited] of this.#limited) this.#logLimited(key, limited)
    this.#limited.clear()
  }

  #of(key: string): Limited {
    const { clock, burst, perSecond } = this.#options
    let limited = this.#limited.get(key)
    if (limited === undefined) {
      const bucket = new TokenBucket(clock, burst, 1000 / perSecond)
      limited = { bucket, seenAt: 0, heldBack: 0 }
      this.#limited.set(key, limited)
    }
    limited.seenAt = clock.now()
    this.#sweepLater()
    return limited
  }

  #sweepLater(): void {
    if (this.#timer !== undefined) return
    this.#timer = this.#options.clock.setTimeout(() => {
      this.#timer = undefined
      this.#sweep()
    }, quietMs)
    this.#timer.unref?.()
  }

  #sweep(): void {
    const now = this.#options.clock.now()
    for (const [key, limited] of this.#limited) {
      if (now - limited.seenAt < quietMs) continue
      this.#logLimited(key, limited)
      if (limited.bucket.isFull) this.#limited.delete(key)
    }
    if (this.#limited.size > 0) this.#sweepLater()
  }

  #logLimited(key: string, limited: Limited): void {
    if (limited.heldBack > 0) this.#options.onQuiet(key, limited.heldBack)
    limited.heldBack = 0
  }
}

/** A bind that goes on failing is logged again after so many milliseconds. */
const againAfterMs = 60_000

/** Lines of a kind that pass at once, and per second after that; the others are counted. */
const burst = 50
const perSecond = 1

const messages = {
  listening: 'listening',
  closed: 'no longer listening',
  failed: 'cannot listen; retrying',
} as const

type Kind = keyof typeof messages

/**
 * Writes when binds come, go and fail. A start with 10 000 Services is 50 lines and a
 * count; the others are there at debug.
 */
class BindLog {
  readonly #log: Log
  readonly #clock: Clock
  readonly #limiter: RecordLimiter
  /** When the failure of a bind was last logged, oldest first. */
  readonly #failedAt = new Map<string, number>()

  constructor(log: Log, clock: Clock) {
    this.#log = log
    this.#clock = clock
    this.#limiter = new RecordLimiter({
      clock,
      burst,
      perSecond,
      onQuiet: (kind, heldBack) => this.#count(kind as Kind, heldBack),
    })
  }

  changed(servicePort: string, state: BindState): void {
    const { bind } = state
    const address = joinHostPort(bind.address, bind.port)
    const key = `${servicePort} ${address}`
    switch (state.state) {
      case 'binding':
        return
      case 'failed': {
        const { error } = state
        const since = new Date(state.since).toISOString()
        if (this.#isNews(key))
          this.#logState('failed', { servicePort, address, error, since })
        return
      }
      case 'listening':
        this.#failedAt.delete(key)
        // Its sockets take no IPv4 (IPV6_V6ONLY), unlike those of many programs.
        const only = bind.address === '::' ? { only: 'IPv6' } : {}
        this.#logState('listening', { servicePort, address, ...only })
        return
      case 'closed':
        this.#logState('closed', { servicePort, address, reason: state.reason })
    }
  }

  /** Says what is still held back; the timer ends. */
  close(): void {
    this.#limiter.close()
  }

  #logState(kind: Kind, fields: LogFields): void {
    const heldBack = this.#limiter.take(kind)
    const level = kind === 'failed' ? 'error' : 'info'
    if (heldBack !== undefined && heldBack > 0) this.#count(kind, heldBack)
    this.#log[heldBack === undefined ? 'debug' : level](fields, messages[kind])
  }

  #count(kind: Kind, heldBack: number): void {
    const level = kind === 'failed' ? 'error' : 'info'
    this.#log[level]({ count: heldBack }, `${messages[kind]}: ${heldBack} more addresses`)
  }

  #isNews(key: string): boolean {
    const now = this.#clock.now()
    // Entries are in the order of their time, and old ones change no answer.
    for (const [old, at] of this.#failedAt) {
      if (now - at < againAfterMs) break
      this.#failedAt.delete(old)
    }
    if (this.#failedAt.has(key)) return false
    this.#failedAt.set(key, now)
    return true
  }
}

interface FailedBind {
  readonly listener: string
  readonly state: Extract<BindState, { state: 'failed' }>
  readonly at: number
}

/**
 * The relay tries again at least every 10 s and reports each time; a bind that it has given
 * up is no longer reported, and is forgotten.
 */
const forgetAfterMs = 25_000

/**
 * The binds that fail now, from what the relay reports of each try: to ask the relay for the
 * state of 10 000 listeners would cost a probe of the health server 10 ms and more.
 */
export class FailingBinds {
  readonly #clock: Clock
  /** Attempts that failed, of node ports on loopback in nftables mode. */
  readonly loopbackFailures = { IPv4: 0, IPv6: 0 }
  /** Those reported last are at the end. */
  readonly #failed = new Map<string, FailedBind>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  changed(listener: string, state: BindState): void {
    const key = keyOf(listener, state.bind)
    this.#failed.delete(key)
    this.#forget()
    if (state.state !== 'failed') return
    this.#failed.set(key, { listener, state, at: this.#clock.now() })
    if (isOnLoopback(listener))
      this.loopbackFailures[familyOf(state.bind.address) ?? 'IPv4'] += 1
  }

  has(listener: string, bind: Bind): boolean {
    this.#forget()
    return this.#failed.has(keyOf(listener, bind))
  }

  states(): readonly BindState[] {
    this.#forget()
    return [...this.#failed.values()].map(({ state }) => state)
  }

  problems(): readonly Problem[] {
    this.#forget()
    return Array.from(this.#failed.values(), ({ listener, state: { bind, error } }) => {
      const place = joinHostPort(bind.address, bind.port)
      const advice = listenAdvice(error, 'give another address or port')
      const message = `cannot listen on ${place}: ${error}${isUnix(place) ? '' : `: ${advice}`}`
      return { object: `Service ${listener}`, field: '', message }
    })
  }

  #forget(): void {
    const now = this.#clock.now()
    for (const [key, { at }] of this.#failed) {
      if (now - at < forgetAfterMs) break
      this.#failed.delete(key)
    }
  }
}

const keyOf = (listener: string, { address, port }: Bind): string =>
  `${listener} ${joinHostPort(address, port)}`
