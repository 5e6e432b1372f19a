/** What a dial does next. `ms` is how long until `timer` is to be called. */
export type NextStep<E> =
  | { readonly action: 'dial'; readonly endpoint: E; readonly ms: number }
  | { readonly action: 'wait'; readonly ms: number }
  | { readonly action: 'give-up' }

/** Why every attempt came to nothing; see `Cause`. */
export type GiveUpCause = 'SC' | 'sC' | 'sQ' | 'RC' | 'CC'

/** First pause after a round in which all refused; doubles up to `longestPauseMs`. */
const firstPauseMs = 50
const longestPauseMs = 400

const giveUp = { action: 'give-up' } as const

/**
 * Decides the order and the times of one connection's dial attempts. Pure: it is given
 * what happened and the time, and answers with what to do.
 *
 * - Each step of the ladder (250 ms, 500 ms, 1 s, 2 s) starts one attempt. When its time
 *   is over the next attempt starts *beside* it: a far endpoint whose handshake takes
 *   longer than the first step can still win.
 * - A refusal moves on at once, within the same step.
 * - Endpoints already tried are left out until all have been tried. After such a round
 *   there is a short, jittered pause, so that a restart of all endpoints does not burn
 *   the budget in a millisecond.
 * - The sum of the ladder bounds it all.
 */
export class RetryPlan<E extends { readonly key: string }> {
  readonly #ladder: readonly number[]
  readonly #deadline: number
  readonly #pick: (tried: ReadonlySet<string>) => E | undefined
  readonly #random: () => number
  readonly #once: boolean
  readonly #tried = new Set<string>()
  /** Keys with an attempt under way; a key may stand here twice. */
  readonly #pending: string[] = []
  #step = 0
  #round = 0
  #pausing = false
  #pauseEnds = 0
  #refused = false
  #local = false

  /**
   * `pick` gives the balancer's next endpoint outside `tried`; it is asked anew for each
   * attempt, so that endpoints which came meanwhile count and removed ones don't.
   * `once`: there is one round, and no pause.
   */
  constructor(
    ladder: readonly number[],
    startedAt: number,
    pick: (tried: ReadonlySet<string>) => E | undefined,
    random: () => number,
    once = false,
  ) {
    this.#once = once
    this.#ladder = ladder
    this.#deadline = startedAt + ladder.reduce((sum, ms) => sum + ms, 0)
    this.#pick = pick
    this.#random = random
  }

  start(now: number): NextStep<E> {
    return this.#dial(now) ?? this.#pause(now)
  }

  /** In place of `start`: the first attempt is under way, and goes to `key`. */
  started(key: string): void {
    this.#tried.add(key)
    this.#pending.push(key)
  }

  /** The endpoint refused, was unreachable or reset the handshake. */
  failed(key: string, now: number): NextStep<E> {
    this.#settle(key)
    this.#refused = true
    return this.#dial(now) ?? this.#pause(now)
  }

  /**
   * There is no way from here to this endpoint now (EADDRNOTAVAIL: source ports are counted by
   * destination): not its fault, and others may be reached.
   */
  outOfReach(key: string, now: number): NextStep<E> {
    this.#settle(key)
    this.#local = true
    return this.#dial(now) ?? this.#pause(now)
  }

  /** This process was short of something (EMFILE), for whatever endpoint it is. */
  failedLocally(key: string, now: number): NextStep<E> {
    this.#settle(key)
    this.#tried.delete(key)
    this.#local = true
    return this.#pause(now)
  }

  /** The time given with the last answer is over. */
  timer(now: number): NextStep<E> {
    if (this.#pausing) {
      this.#pausing = false
    } else {
      this.#step += 1
      if (this.#step >= this.#ladder.length) return giveUp
    }
    return this.#dial(now) ?? this.#newRound(now) ?? this.#pause(now)
  }

  /** What to say of the connection after `give-up`. */
  get cause(): GiveUpCause {
    if (this.#pending.length > 0) return 'sC'
    return this.#local && !this.#refused ? 'RC' : 'SC'
  }

  #dial(now: number): NextStep<E> | undefined {
    const left = this.#deadline - now
    if (left <= 0) return giveUp
    const endpoint = this.#pick(this.#tried)
    if (endpoint === undefined) return undefined
    this.#pausing = false
    this.#tried.add(endpoint.key)
    this.#pending.push(endpoint.key)
    const step = this.#ladder[this.#step] ?? left
    return { action: 'dial', endpoint, ms: Math.min(step, left) }
  }

  /** All may be tried again; first those from which no answer is awaited. */
  #newRound(now: number): NextStep<E> | undefined {
    this.#tried.clear()
    for (const key of this.#pending) this.#tried.add(key)
    const next = this.#dial(now)
    if (next !== undefined || this.#pending.length === 0) return next
    this.#tried.clear()
    return this.#dial(now)
  }

  #pause(now: number): NextStep<E> {
    const left = this.#deadline - now
    if (left <= 0) return giveUp
    if (this.#once) {
      return this.#pending.length === 0 ? giveUp : { action: 'wait', ms: left }
    }
    // An earlier attempt that fails during a pause must not make it longer.
    if (!this.#pausing) this.#pauseEnds = now + this.#nextPause()
    this.#pausing = true
    return { action: 'wait', ms: Math.min(Math.max(this.#pauseEnds - now, 0), left) }
  }

  #nextPause(): number {
    const pause = Math.min(firstPauseMs * 2 ** this.#round, longestPauseMs)
    this.#round += 1
    return pause * (0.5 + this.#random())
  }

  #settle(key: string): void {
    const at = this.#pending.indexOf(key)
    if (at >= 0) this.#pending.splice(at, 1)
  }
}
