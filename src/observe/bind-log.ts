import type { Problem } from '../model/snapshot.ts'
import type { BindState, Bind } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { isOnLoopback } from '../mode/split-services.ts'
import { familyOf, joinHostPort } from '../util/ip.ts'
import { listenAdvice } from '../util/listen-advice.ts'
import { isUnix } from '../util/unix-address.ts'
import type { Log, LogFields } from './log.ts'
import { RecordLimiter } from './record-limiter.ts'

/** A bind that goes on failing is logged again after so many milliseconds. */
const againAfterMs = 60_000

/** Lines of a kind that pass at once, and per second after that; the others are counted. */
const burst = 50
const perSecond = 1

const messages = {
  listening: 'listening',
  closed: 'no longer listening',
  failed: 'cannot listen; trying again',
} as const

type Kind = keyof typeof messages

/**
 * Writes when binds come, go and fail. A start with 10 000 Services is 50 lines and a
 * count; the others are there at debug.
 */
export class BindLog {
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
        if (this.#isNews(key)) this.#say('failed', { servicePort, address, error, since })
        return
      }
      case 'listening':
        this.#failedAt.delete(key)
        // Its sockets take no IPv4 (IPV6_V6ONLY), unlike those of many programs.
        const only = bind.address === '::' ? { only: 'IPv6' } : {}
        this.#say('listening', { servicePort, address, ...only })
        return
      case 'closed':
        this.#say('closed', { servicePort, address, reason: state.reason })
    }
  }

  /** Says what is still held back; the timer ends. */
  close(): void {
    this.#limiter.close()
  }

  #say(kind: Kind, fields: LogFields): void {
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
