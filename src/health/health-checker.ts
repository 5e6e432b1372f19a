import { setMaxListeners } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import { type Clock, systemClock, type Timer } from '../util/clock.ts'
import type { CheckedEndpoint, CheckRules } from './check.ts'
import type { Check } from './check-option.ts'
import { EndpointHealth, inUse, type KnownHealth } from './endpoint-health.ts'
import { makeCheck, type RunCheck } from './make-check.ts'

/** An endpoint to be checked. */
export interface CheckTarget extends CheckedEndpoint {
  /** Unique among the targets. */
  readonly key: string
  readonly check: Check
  readonly rules: CheckRules
}

export interface Health {
  readonly up: boolean
  /** Whether a check has found so, or only `init`. */
  readonly isKnown: boolean
  /** As many checks as it takes have found it down, not only the first one or `init`. */
  readonly isLost: boolean
  /** Milliseconds for which checks have found so; 0 while it is not known. */
  readonly forMs: number
  /** Why the last check failed, or what could be mended though it did not; '' for neither. */
  readonly reason: string
  /** The name that its address was found by; '' when it was given by address. */
  readonly host: string
}

interface Watched {
  readonly target: CheckTarget
  readonly health: EndpointHealth
  readonly run: RunCheck
}

interface CheckerOptions {
  /**
   * What is known of a target has changed. `hasTurned`: it is up or down now and was not before, or
   * its first check has found it down.
   */
  readonly changed: (target: CheckTarget, health: Health, hasTurned: boolean) => void
  readonly clock?: Clock
  /** As Math.random. */
  readonly random?: () => number
  readonly makeCheck?: (check: Check) => RunCheck
  /** Checks, each with a socket, that may be under way at the same time. */
  readonly most?: number
}

/** Between starts: many that are started together cost half of what they would one by one. */
const stepMs = 100

/** Between the first checks of many endpoints: 1,000 are spread over 2 s. */
const spreadMs = 2

/** Checks targets again and again, and notifies of those that turn. */
export class HealthChecker {
  readonly #options: Required<CheckerOptions>
  readonly #watched = new Map<string, Watched>()
  readonly #runs = new WeakMap<Check, RunCheck>()
  readonly #ended = new AbortController()
  readonly #underWay = new Set<Promise<void>>()
  #timer: Timer | undefined
  #timerAt = Number.POSITIVE_INFINITY
  #steppedAt = Number.NEGATIVE_INFINITY

  constructor(options: CheckerOptions) {
    const usual = { clock: systemClock, random: Math.random, makeCheck, most: 256 }
    this.#options = { ...usual, ...options }
    setMaxListeners(0, this.#ended.signal) // one for each check under way
  }

  /**
   * All that are to be checked from now on; what is known of those that stay, stays, however they are
   * asked and whatever they are called from now on. `used`: keys of those that get connections
   * already.
   */
  set(targets: readonly CheckTarget[], used: ReadonlySet<string> = new Set()): void {
    if (this.#ended.signal.aborted) return
    const before = new Map(this.#watched)
    const now = this.#options.clock.now()
    this.#watched.clear()
    let fresh = 0
    for (const target of targets) {
      const known = before.get(target.key)
      if (known !== undefined && isDeepStrictEqual(known.target, target)) {
        this.#watched.set(target.key, known)
        continue
      }
      // Under another name of its group it is the same endpoint.
      const twin = known ?? [...before.values()].find(one => isTwin(one.target, target))
      const health = twin?.health ?? (used.has(target.key) ? inUse : undefined)
      this.#watched.set(target.key, this.#watch(target, now, fresh++, health))
    }
    if (this.#watched.size > 0) this.#wakeAt(now)
  }

  /** Undefined for what is not checked. */
  healthOf(key: string): Health | undefined {
    const watched = this.#watched.get(key)
    return watched && this.#healthOf(watched)
  }

  /** Settles when nothing is under way any more. */
  async close(): Promise<void> {
    this.#ended.abort()
    this.#watched.clear()
    this.#options.clock.clearTimeout(this.#timer)
    await Promise.all(this.#underWay)
  }

  #watch(
    target: CheckTarget,
    now: number,
    place: number,
    before: KnownHealth | undefined,
  ): Watched {
    const { rules, check } = target
    const firstAt = now + ((place * spreadMs) % rules.intervalMs)
    const run = this.#runs.get(check) ?? this.#options.makeCheck(check)
    this.#runs.set(check, run)
    return {
      target,
      run,
      health: new EndpointHealth(rules, firstAt, this.#options.random, before),
    }
  }

  /** At the earliest a step after the last one. */
  #wakeAt(dueAt: number): void {
    const at = Math.max(dueAt, this.#steppedAt + stepMs)
    if (at >= this.#timerAt || at === Number.POSITIVE_INFINITY) return
    const { clock } = this.#options
    clock.clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = clock.setTimeout(() => this.#step(), Math.max(0, at - clock.now()))
  }

  #step(): void {
    const now = this.#options.clock.now()
    this.#steppedAt = now
    this.#timerAt = Number.POSITIVE_INFINITY
    const all = [...this.#watched.values()]
    // Who has waited longest comes first, if not all may start.
    const due = all
      .filter(({ health }) => health.dueAt <= now)
      .toSorted((a, b) => a.health.dueAt - b.health.dueAt)
    for (const watched of due) {
      if (this.#underWay.size >= this.#options.most) break
      this.#start(watched, now)
    }
    for (const { health } of all) this.#wakeAt(health.dueAt)
  }

  #start(watched: Watched, now: number): void {
    watched.health.started(now)
    const running = this.#check(watched)
    this.#underWay.add(running)
    void running.finally(() => this.#underWay.delete(running))
  }

  async #check(watched: Watched): Promise<void> {
    const { target, run, health } = watched
    const { timeoutMs } = target.rules
    const outcome = await run(target, { timeoutMs, signal: this.#ended.signal })
    if (this.#watched.get(target.key) !== watched) return
    const { isKnown, isLost, reason } = health
    const hasTurned = health.finished(outcome, this.#options.clock.now())
    this.#wakeAt(health.dueAt)
    const isNews = isKnown ? isLost !== health.isLost : reason !== health.reason
    if (hasTurned || isNews || isKnown !== health.isKnown)
      this.#options.changed(target, this.#healthOf(watched), hasTurned)
  }

  #healthOf({ target: { host }, health }: Watched): Health {
    const { up, isKnown, isLost, since, reason } = health
    const forMs = since === undefined ? 0 : this.#options.clock.now() - since
    return { up, isKnown, isLost, forMs, reason, host }
  }
}

const isTwin = (a: CheckTarget, b: CheckTarget): boolean =>
  a.address === b.address && a.port === b.port && isDeepStrictEqual(a.check, b.check)
