import type { Clock, Timer } from './clock.ts'

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
