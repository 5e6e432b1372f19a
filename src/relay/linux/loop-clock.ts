import type { Clock, Timer } from '../../util/clock.ts'
import { Timed, TimerWheel } from './timer-wheel.ts'

class LoopTimer extends Timed implements Timer {
  /** It keeps no process alive. */
  declare readonly unref?: () => unknown
  readonly callback: () => void

  constructor(callback: () => void) {
    super()
    this.callback = callback
  }
}

/** The clock of code that runs in an EventLoop: its timers expire between two turns. */
export class LoopClock implements Clock {
  readonly #wheel: TimerWheel<LoopTimer>
  #now: number

  constructor(tickMs: number, now: number) {
    this.#now = now
    this.#wheel = new TimerWheel(tickMs, timer => timer.callback())
  }

  /** The time at which the present turn began. */
  now(): number {
    return this.#now
  }

  setTimeout(callback: () => void, ms: number): Timer {
    const timer = new LoopTimer(callback)
    this.#wheel.set(timer, ms, this.#now)
    return timer
  }

  clearTimeout(timer: Timer | undefined): void {
    if (timer !== undefined) this.#wheel.clear(timer as LoopTimer)
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
}
