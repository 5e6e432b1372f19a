import { performance } from 'node:perf_hooks'

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
