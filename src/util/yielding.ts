import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from './clock.ts'

/** Milliseconds for which a long task may hold the event loop. What follows from each step
 * (promises, ticks, garbage) comes on top, and all else waits. */
const sliceMs = 3
/** Several tasks may follow each other in one turn: each leaves it with less than this. */
const restMs = 0.5

/**
 * A function to await now and then in long work: lets the rest of the event loop have its turn
 * when the work has had it for 3 ms, or as long as it is told.
 */
export const pacer = (
  clock: Pick<Clock, 'now'> = systemClock,
): ((ms?: number) => Promise<void> | undefined) => {
  let since = clock.now()
  const yields = async (): Promise<void> => {
    await setImmediate()
    since = clock.now()
  }
  return (ms = sliceMs) => (clock.now() - since < ms ? undefined : yields())
}

/**
 * Calls `each` for each item, one after the other, at the pace of a `pacer`. What `each` changes
 * is half-way changed in between. Rejects with what `each` throws, and goes no further.
 */
export const forEachYielding = async <T>(
  items: Iterable<T>,
  each: (item: T) => void | Promise<void>,
  clock?: Pick<Clock, 'now'>,
): Promise<void> => {
  const turn = pacer(clock)
  for (const item of items) {
    const done = each(item)
    if (done !== undefined) await done
    const yields = turn()
    if (yields !== undefined) await yields
  }
  await turn(restMs)
}
