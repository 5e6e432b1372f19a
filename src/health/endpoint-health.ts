import type { CheckOutcome, CheckRules } from './check.ts'

/** Between checks while an endpoint is about to turn, at most. */
const changingMs = 1000

/**
 * Of the interval: between checks of one that has answered that it is not what is asked for.
 * One that could not be asked, as while it is restarted, has longer.
 */
const afterAnswer = 1 / 10

/** Intervals are up to a tenth shorter or longer, so that checks don't fall into step. */
const jitter = 0.1

/** What is known of an endpoint that was in use before it was asked, or is asked otherwise now. */
export type KnownHealth = Pick<EndpointHealth, 'up' | 'isLost' | 'since' | 'reason'>

/** It was in use unchecked. */
export const inUse: KnownHealth = {
  up: true,
  isLost: false,
  since: undefined,
  reason: '',
}

/**
 * Whether one endpoint is up, by the outcomes of its checks. Pure: told the time, in
 * milliseconds, and what came of each check.
 */
export class EndpointHealth {
  readonly #rules: CheckRules
  readonly #random: () => number
  readonly #wasUp: boolean
  #up: boolean
  /** When a check first found what it is now; undefined before any has. */
  #since: number | undefined
  #isChecking = false
  /** Outcomes in a row that speak against what it is taken for. */
  #against = 0
  /** Failures in a row. */
  #failures: number
  /** The last of those was its own answer. */
  #isDenied = false
  #startedAt = 0
  #dueAt: number
  #reason = ''

  /**
   * `firstAt`: when its first check is due. `random` as Math.random. `before`: state goes with the
   * endpoint, not with how it is asked; `init` is for one that was not in use.
   */
  constructor(
    rules: CheckRules,
    firstAt: number,
    random: () => number,
    before?: KnownHealth,
  ) {
    this.#rules = rules
    this.#random = random
    this.#wasUp = before?.up === true
    this.#up = before === undefined ? rules.init === 'up' : before.up
    this.#since = before?.since
    this.#reason = before?.reason ?? ''
    this.#failures = before?.isLost === true ? rules.fall : 0
    this.#dueAt = firstAt
  }

  get up(): boolean {
    return this.#up
  }

  /** As many checks as it takes have found it down, not only the first one or `init`. */
  get isLost(): boolean {
    return !this.#up && this.#failures >= this.#rules.fall
  }

  /** Whether a check has found so; else it is what it is taken for before its first. */
  get isKnown(): boolean {
    return this.#since !== undefined
  }

  /** Since when checks have found what it is; undefined before any has. */
  get since(): number | undefined {
    return this.#since
  }

  /** Why the last check failed, or a note of one that did not; '' for neither. */
  get reason(): string {
    return this.#reason
  }

  /** When the next check may begin; Infinity while one is under way. */
  get dueAt(): number {
    return this.#dueAt
  }

  started(now: number): void {
    this.#startedAt = now
    this.#dueAt = Number.POSITIVE_INFINITY
  }

  /** True when it has turned, or its first check has found it down: that is to be reported, too. */
  finished(outcome: CheckOutcome, now: number): boolean {
    const { up: before, isKnown: wasKnown } = this
    this.#reason = outcome.ok ? (outcome.note ?? '') : outcome.reason
    if (outcome.ok || outcome.here !== true) {
      this.#count(outcome.ok, now)
      this.#isDenied = !outcome.ok && outcome.answered === true
    }
    this.#dueAt = Math.max(now, this.#startedAt + this.#pauseMs())
    const isFirst = !wasKnown && this.isKnown
    return this.#up !== before || (isFirst && !this.#up)
  }

  #count(ok: boolean, now: number): void {
    const { fall, rise } = this.#rules
    // There is nothing that the first one could be a slip from, unless it was in use.
    const decides = !this.#isChecking && (ok || !this.#wasUp)
    this.#isChecking = true
    this.#failures = ok ? 0 : this.#failures + 1
    this.#against = ok === this.#up ? 0 : this.#against + 1
    if (ok !== this.#up && !decides && this.#against < (ok ? rise : fall)) return
    if (ok !== this.#up || !this.isKnown) this.#since = now
    this.#up = ok
    this.#against = 0
  }

  #pauseMs(): number {
    const { intervalMs } = this.#rules
    const soonMs = this.#isDenied ? intervalMs * afterAnswer : intervalMs
    const ms = this.#against > 0 ? Math.min(changingMs, soonMs) : intervalMs
    return ms * (1 + jitter * (2 * this.#random() - 1))
  }
}
