import { performance } from 'node:perf_hooks'

/** A timer that can be called off. Node's own timers satisfy it. */
export interface Timer {
  unref?(): unknown
}

/**
 * Time as the rest of the code sees it, handed in so that tests can drive it.
 * `now` is monotonic milliseconds: a wall clock that jumps must not expire a session.
 */
export interface Clock {
  now(): number
  setTimeout(callback: () => void, ms: number): Timer
  clearTimeout(timer: Timer | undefined): void
}

export const systemClock: Clock = {
  now: () => performance.now(),
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as NodeJS.Timeout | undefined),
}
