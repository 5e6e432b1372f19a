import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from './clock.ts'
import { performance } from 'node:perf_hooks'

/** Milliseconds for which a long task may hold the event loop. What follows from each step
 * (promises, ticks, garbage) comes on top, and all else waits. */
const sliceMs = 3
/** Several tasks may follow each other in one turn: each leaves it with less than this. */
const restMs = 0.5

/**
 * Calls `each` for each item, one after the other, and lets the rest of the event loop
 * have its turn every 3 ms. What `each` changes is half-way changed in between. Rejects
 * with what `each` throws, and goes no further.
 */
export const forEachYielding = async <T>(
  items: Iterable<T>,
  each: (item: T) => void | Promise<void>,
  clock: Pick<Clock, 'now'> = systemClock,
): Promise<void> => {
  let started = clock.now()
  for (const item of items) {
    const done = each(item)
    if (done !== undefined) await done
    if (clock.now() - started < sliceMs) continue
    await setImmediate()
    started = clock.now()
  }
  if (clock.now() - started >= restMs) await setImmediate()
}

/** How long a long piece of work may keep the event loop to itself, in milliseconds. */
const longestTurn = 5

/** A function to await now and then in long work: lets the event loop turn when it is time. */
export const pacer = (): (() => Promise<void>) => {
  let since = performance.now()
  return async () => {
    if (performance.now() - since < longestTurn) return
    await setImmediate()
    since = performance.now()
  }
}
