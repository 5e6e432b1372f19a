import { performance } from 'node:perf_hooks'
import { errorOf } from './usher-error.ts'

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

/**
 * A clock that all threads agree on: CLOCK_MONOTONIC in milliseconds. `performance.now()`
 * counts from each thread's own start, but is read in a fraction of the time that
 * `process.hrtime` takes; so the difference is measured once.
 */
export const monotonicClock = (): (() => number) => {
  const [seconds, nanoseconds] = process.hrtime()
  const offset = seconds * 1000 + nanoseconds / 1e6 - performance.now()
  return () => performance.now() + offset
}

/** What `done` comes to, or undefined when that takes longer than `ms` milliseconds. */
export const within = async <T>(
  clock: Clock,
  ms: number,
  done: Promise<T>,
): Promise<T | undefined> => {
  let timer: Timer | undefined
  const timeout = new Promise<undefined>(resolve => {
    timer = clock.setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([done, timeout])
  } finally {
    clock.clearTimeout(timer)
    done.catch(() => {}) // Its result is not awaited any more.
  }
}

/** Resolves after `ms` milliseconds, or at once when the signal aborts. */
export const wait = (clock: Clock, ms: number, signal: AbortSignal): Promise<void> =>
  new Promise(resolve => {
    if (signal.aborted) return resolve()
    const done = () => {
      clock.clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = clock.setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })

/** What the promise settles with, unless the signal aborts before: then its reason. */
export const orAborted = <T>(promise: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    const aborted = () => reject(errorOf(signal.reason))
    if (signal.aborted) aborted()
    signal.addEventListener('abort', aborted)
    const settled = () => signal.removeEventListener('abort', aborted)
    promise.then(resolve, reject).finally(settled)
  })
