import type { Clock } from './clock.ts'

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
    const aborted = () => reject(reasonOf(signal))
    if (signal.aborted) aborted()
    signal.addEventListener('abort', aborted)
    const settled = () => signal.removeEventListener('abort', aborted)
    promise.then(resolve, reject).finally(settled)
  })

export const reasonOf = ({ reason }: AbortSignal): Error =>
  reason instanceof Error ? reason : new Error(String(reason))
