import type { Clock, Timer } from '../../util/clock.ts'
import { TimerWheel } from './timer-wheel.ts'

interface LoopTimer extends Timer {
  readonly id: number
  readonly callback: () => void
}

/** The clock of code that runs in an EventLoop: its timers expire between two turns. */
export class LoopClock implements Clock {
  readonly #wheel: TimerWheel
  readonly #timers: (LoopTimer | undefined)[] = []
  readonly #free: number[] = []
  #now: number

  constructor(tickMs: number, now: number) {
    this.#now = now
    this.#wheel = new TimerWheel(tickMs, id => this.#expire(id))
  }

  /** The time at which the present turn began. */
  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, ms: number): Timer {
    const id = this.#free.pop() ?? this.#timers.length
    const timer: LoopTimer = { id, callback }
    this.#timers[id] = timer
    this.#wheel.set(id, ms, this.#now)
    return timer
  }

  clearTimeout(timer: Timer | undefined): void {
    const { id } = (timer ?? { id: -1 }) as LoopTimer
    if (timer === undefined || this.#timers[id] !== timer) return
    this.#wheel.clear(id)
    this.#forget(id)
  }

  /** Milliseconds until a timer may expire. */
  wait(): number {
    return this.#wheel.wait(this.#now)
  }

  /** A new turn begins at `now`. */
  enter(now: number): void {
    this.#now = now
  }

  /** Calls what has expired by now. */
  run(): void {
    this.#wheel.run(this.#now)
  }

  #expire(id: number): void {
    const timer = this.#timers[id]
    this.#forget(id)
    timer?.callback()
  }

  #forget(id: number): void {
    this.#timers[id] = undefined
    this.#free.push(id)
  }
}
