import type { Clock, Timer } from '../../src/util/clock.ts'

/** A clock that stands still until told to go on; timers fire in order of their time. */
export class FakeClock implements Clock {
  #now = 0
  readonly #timers = new Map<Timer, { at: number; callback: () => void }>()

  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, ms: number): Timer {
    const timer: Timer = {}
    this.#timers.set(timer, { at: this.#now + ms, callback })
    return timer
  }

  clearTimeout(timer: Timer | undefined): void {
    if (timer !== undefined) this.#timers.delete(timer)
  }

  /** How many timers are set. */
  get waiting(): number {
    return this.#timers.size
  }

  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const due = [...this.#timers]
        .filter(([, { at }]) => at <= end)
        .toSorted(([, a], [, b]) => a.at - b.at)[0]
      if (due === undefined) break
      const [timer, { at, callback }] = due
      this.#timers.delete(timer)
      this.#now = at
      callback()
    }
    this.#now = end
  }
}
