import { dueAfter } from './arrival-rate.ts'

/** Of what is in the memory, in a millisecond. */
const perMs = 1e6

export const newSharedRate = (): SharedRate => new SharedRate(new SharedArrayBuffer(8))

/** A rate that several threads share, who agree on the time: one cell, changed at once or not at all. */
export class SharedRate {
  readonly memory: SharedArrayBuffer
  /** When the next is due, in nanoseconds; see `dueAfter`. */
  readonly #due: BigInt64Array

  constructor(memory: SharedArrayBuffer) {
    this.memory = memory
    this.#due = new BigInt64Array(memory)
  }

  /** Whether one more may come; it is not counted. */
  has(perSecond: number, now: number): boolean {
    const due = Number(Atomics.load(this.#due, 0)) / perMs
    return dueAfter(due, now, perSecond) !== undefined
  }

  /** Whether one more may come; if so, it is counted. */
  take(perSecond: number, now: number): boolean {
    for (;;) {
      const before = Atomics.load(this.#due, 0)
      const due = dueAfter(Number(before) / perMs, now, perSecond)
      if (due === undefined) return false
      const after = BigInt(Math.round(due * perMs))
      if (Atomics.compareExchange(this.#due, 0, before, after) === before) return true
    }
  }
}
