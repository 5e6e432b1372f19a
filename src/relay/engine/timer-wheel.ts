/** A power of two. */
const slots = 512

/** Where a tick's timers are. Right beyond 32 bits too: `&` takes a number modulo 2^32. */
const slotOf = (tick: number): number => tick & (slots - 1)

/** The list of those whose time is over, beside the slots, and what they have for a tick. */
const expiring = slots
const overdue = -1

/** Something with one timer of a `TimerWheel`. */
export class Timed {
  /** For the wheel: the tick at which it expires, or `overdue`; 0 when it is not set. */
  timerDue = 0
  timerNext: Timed | undefined = undefined
  timerPrevious: Timed | undefined = undefined
}

/**
 * Coarse timers: setting one and calling one off costs a few writes, whatever their number.
 * One expires up to a tick late, never early.
 */
export class TimerWheel<T extends Timed> {
  readonly #tickMs: number
  readonly #expired: (timed: T) => void
  /** First of each list. */
  readonly #first: (Timed | undefined)[] = Array.from({ length: slots + 1 })
  #armed = 0
  /** The tick that has been handled last. */
  #tick = 0
  /** No timer is due before this tick: looked for once, not at every wait. */
  #lowest = 0

  /**
   * `expired` may set timers and call them off, its own too. When it throws, `run` does,
   * and the next one goes on with the others.
   */
  constructor(tickMs: number, expired: (timed: T) => void) {
    this.#tickMs = tickMs
    this.#expired = expired
  }

  get armed(): number {
    return this.#armed
  }

  /**
   * In place of what was set for `timed`: after `ms` milliseconds, Infinity for never. `now`
   * in milliseconds, never less than before.
   */
  set(timed: T, ms: number, now: number): void {
    this.clear(timed)
    // After a time without timers there is nothing to be handled on the way to now.
    if (this.#armed === 0) {
      this.#tick = Math.floor(now / this.#tickMs)
      this.#lowest = Infinity
    }
    const due = Math.max(Math.ceil((now + ms) / this.#tickMs), this.#tick + 1)
    timed.timerDue = due
    this.#lowest = Math.min(this.#lowest, due)
    this.#link(timed, slotOf(due))
    this.#armed += 1
  }

  clear(timed: T): void {
    const due = timed.timerDue
    if (due === 0) return
    this.#unlink(timed, due === overdue ? expiring : slotOf(due))
    timed.timerDue = 0
    this.#armed -= 1
  }

  isSet(timed: T): boolean {
    return timed.timerDue !== 0
  }

  /** Milliseconds until something may expire; Infinity when nothing is set. */
  wait(now: number): number {
    if (this.#armed === 0) return Infinity
    if (this.#first[expiring] !== undefined) return 0
    let tick = Math.max(this.#lowest, this.#tick + 1)
    const round = this.#tick + slots
    while (tick < round && this.#first[slotOf(tick)] === undefined) tick += 1
    this.#lowest = tick
    return Math.max(tick * this.#tickMs - now, 0)
  }

  /** Calls `expired` for everything whose time is over, what was due first first. */
  run(now: number): void {
    const target = Math.floor(now / this.#tickMs)
    if (this.#armed > 0) this.#collect(target)
    this.#tick = Math.max(this.#tick, target)
    for (;;) {
      const timed = this.#first[expiring]
      if (timed === undefined) return
      this.clear(timed as T)
      this.#expired(timed as T)
    }
  }

  /**
   * Moves what is due by the tick `target` to the list of those that expire: each is
   * looked at once, however many others share its slot.
   */
  #collect(target: number): void {
    // A whole round shows each slot once: more would find the same again.
    const first = Math.max(this.#lowest, this.#tick + 1, target - slots + 1)
    for (let tick = target; tick >= first; tick -= 1) {
      let timed = this.#first[slotOf(tick)]
      while (timed !== undefined) {
        const next: Timed | undefined = timed.timerNext
        if (timed.timerDue <= target) this.#expire(timed, slotOf(tick))
        timed = next
      }
    }
  }

  #expire(timed: Timed, slot: number): void {
    this.#unlink(timed, slot)
    timed.timerDue = overdue
    this.#link(timed, expiring)
  }

  #link(timed: Timed, slot: number): void {
    const first = this.#first[slot]
    timed.timerNext = first
    timed.timerPrevious = undefined
    if (first !== undefined) first.timerPrevious = timed
    this.#first[slot] = timed
  }

  #unlink(timed: Timed, slot: number): void {
    const { timerNext: next, timerPrevious: previous } = timed
    if (previous === undefined) this.#first[slot] = next
    else previous.timerNext = next
    if (next !== undefined) next.timerPrevious = previous
    timed.timerNext = undefined
    timed.timerPrevious = undefined
  }
}
