import type { Clock } from './clock.ts'
import { errorOf } from './usher-error.ts'

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
