import { moved } from './moved.ts'

/** A power of two. */
const slots = 512
const none = -1

/** Where a tick's timers are. Right beyond 32 bits too: `&` takes a number modulo 2^32. */
const slotOf = (tick: number): number => tick & (slots - 1)

/** The list of those whose time is over, beside the slots, and what they have for a tick. */
const expiring = slots
const overdue = -1

/**
 * Coarse timers for things that are numbered: setting one and calling one off costs a few
 * writes into arrays, whatever their number. One expires up to a tick late, never early.
 */
export class TimerWheel {
  readonly #tickMs: number
  readonly #expired: (id: number) => void
  /** First id of each list, and by id the neighbours in its list. */
  readonly #first = new Int32Array(slots + 1).fill(none)
  #next = new Int32Array(0)
  #previous = new Int32Array(0)
  /** By id: the tick at which it expires, or `overdue`; 0 when it is not set. */
  #due = new Float64Array(0)
  #armed = 0
  /** The tick that has been handled last. */
  #tick = 0
  /** No timer is due before this tick: looked for once, not at every wait. */
  #lowest = 0

  /**
   * `expired` may set timers and call them off, its own too. When it throws, `run` does,
   * and the next one goes on with the others.
   */
  constructor(tickMs: number, expired: (id: number) => void) {
    this.#tickMs = tickMs
    this.#expired = expired
  }

  get armed(): number {
    return this.#armed
  }

  /**
   * In place of what was set for `id`: after `ms` milliseconds, Infinity for never. `now`
   * in milliseconds, never less than before.
   */
  set(id: number, ms: number, now: number): void {
    if (id >= this.#due.length) this.#grow(id)
    this.clear(id)
    // After a time without timers there is nothing to be handled on the way to now.
    if (this.#armed === 0) {
      this.#tick = Math.floor(now / this.#tickMs)
      this.#lowest = Infinity
    }
    const due = Math.max(Math.ceil((now + ms) / this.#tickMs), this.#tick + 1)
    this.#due[id] = due
    this.#lowest = Math.min(this.#lowest, due)
    this.#link(id, slotOf(due))
    this.#armed += 1
  }

  clear(id: number): void {
    const due = this.#due[id] ?? 0
    if (due === 0) return
    this.#unlink(id, due === overdue ? expiring : slotOf(due))
    this.#due[id] = 0
    this.#armed -= 1
  }

  isSet(id: number): boolean {
    return (this.#due[id] ?? 0) !== 0
  }

  /** Milliseconds until something may expire; Infinity when nothing is set. */
  wait(now: number): number {
    if (this.#armed === 0) return Infinity
    if (this.#first[expiring] !== none) return 0
    let tick = Math.max(this.#lowest, this.#tick + 1)
    const round = this.#tick + slots
    while (tick < round && this.#first[slotOf(tick)] === none) tick += 1
    this.#lowest = tick
    return Math.max(tick * this.#tickMs - now, 0)
  }

  /** Calls `expired` for everything whose time is over, what was due first first. */
  run(now: number): void {
    const target = Math.floor(now / this.#tickMs)
    if (this.#armed > 0) this.#collect(target)
    this.#tick = Math.max(this.#tick, target)
    for (;;) {
      const id = this.#first[expiring] ?? none
      if (id === none) return
      this.clear(id)
      this.#expired(id)
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
      let id = this.#first[slotOf(tick)] ?? none
      while (id !== none) {
        const next = this.#next[id] ?? none
        if ((this.#due[id] ?? 0) <= target) this.#expire(id, slotOf(tick))
        id = next
      }
    }
  }

  #expire(id: number, slot: number): void {
    this.#unlink(id, slot)
    this.#due[id] = overdue
    this.#link(id, expiring)
  }

  #link(id: number, slot: number): void {
    const first = this.#first[slot] ?? none
    this.#next[id] = first
    this.#previous[id] = none
    if (first !== none) this.#previous[first] = id
    this.#first[slot] = id
  }

  #unlink(id: number, slot: number): void {
    const next = this.#next[id] ?? none
    const previous = this.#previous[id] ?? none
    if (previous === none) this.#first[slot] = next
    else this.#next[previous] = next
    if (next !== none) this.#previous[next] = previous
  }

  #grow(id: number): void {
    const size = Math.max(64, 2 ** Math.ceil(Math.log2(id + 1)))
    this.#next = moved(this.#next, new Int32Array(size))
    this.#previous = moved(this.#previous, new Int32Array(size))
    this.#due = moved(this.#due, new Float64Array(size))
  }
}
