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

/**
 * Whether one endpoint is up, by the outcomes of its checks. Pure: told the time, in
 * milliseconds, and what came of each check.
 */
export class EndpointHealth {
  readonly #rules: CheckRules
  readonly #random: () => number
  #up: boolean
  /** When a check has first said what it is now; undefined before any has. */
  #since: number | undefined
  /** Outcomes in a row that speak against what it is taken for. */
  #against = 0
  /** The last of those was its own answer. */
  #isDenied = false
  #startedAt = 0
  #dueAt: number
  #why = ''

  /** `firstAt`: when its first check is due. `random` as Math.random. */
  constructor(rules: CheckRules, firstAt: number, random: () => number) {
    this.#rules = rules
    this.#random = random
    this.#up = rules.init === 'up'
    this.#dueAt = firstAt
  }

  get up(): boolean {
    return this.#up
  }

  /** Whether a check has said so; else it is what it is taken for before its first. */
  get isKnown(): boolean {
    return this.#since !== undefined
  }

  /** Since when checks have said what it is; undefined before any has. */
  get since(): number | undefined {
    return this.#since
  }

  /** Why the last check failed, or a note of one that did not; '' for neither. */
  get why(): string {
    return this.#why
  }

  /** When the next check may begin; Infinity while one is under way. */
  get dueAt(): number {
    return this.#dueAt
  }

  started(now: number): void {
    this.#startedAt = now
    this.#dueAt = Number.POSITIVE_INFINITY
  }

  /** True when it has turned, or its first check has found it down: that is to be told, too. */
  finished(outcome: CheckOutcome, now: number): boolean {
    const { up: before, isKnown: wasKnown } = this
    this.#why = outcome.ok ? (outcome.note ?? '') : outcome.why
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
    this.#against = ok === this.#up ? 0 : this.#against + 1
    // There is nothing that the first one could be a slip from.
    if (this.isKnown && this.#against < (ok ? rise : fall)) return
    this.#since = now
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
