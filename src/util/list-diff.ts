import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from './clock.ts'

/** A stretch of two lists that is not the same: `[from, to)` in either. */
export interface Hunk {
  readonly before: readonly [from: number, to: number]
  readonly after: readonly [from: number, to: number]
}

/** How far is looked for items that both lists have again after a difference. */
const lookAhead = 16

/**
 * Where two lists differ, item by item (`===`). Made for lists of thousands in which
 * single items are replaced, come or go: those 10 000 are walked in some 20 us. What lies
 * further apart than 16 items is not matched, and counts as different.
 */
export const listHunks = <T>(before: readonly T[], after: readonly T[]): Hunk[] => {
  const hunks: Hunk[] = []
  let i = 0
  let j = 0
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      i += 1
      j += 1
      continue
    }
    const [from, to] = [i, j]
    for (;;) {
      const next = meeting(before, i, after, j)
      i = Math.min(before.length, i + (next?.skipBefore ?? lookAhead))
      j = Math.min(after.length, j + (next?.skipAfter ?? lookAhead))
      if (next !== undefined || (i === before.length && j === after.length)) break
    }
    hunks.push({ before: [from, i], after: [to, j] })
  }
  return hunks
}

/** The items of either list that lie where the two differ, in order. */
export const listDiff = <T>(
  before: readonly T[],
  after: readonly T[],
): { readonly before: readonly T[]; readonly after: readonly T[] } => {
  const [old, now]: [T[], T[]] = [[], []]
  for (const hunk of listHunks(before, after)) {
    for (let i = hunk.before[0]; i < hunk.before[1]; i += 1) old.push(before[i] as T)
    for (let j = hunk.after[0]; j < hunk.after[1]; j += 1) now.push(after[j] as T)
  }
  return { before: old, after: now }
}

interface Meeting {
  readonly skipBefore: number
  readonly skipAfter: number
}

/** The nearest place where both lists go on with the same item. */
const meeting = <T>(
  before: readonly T[],
  i: number,
  after: readonly T[],
  j: number,
): Meeting | undefined => {
  for (let steps = 1; steps <= 2 * lookAhead; steps += 1) {
    const least = Math.max(0, steps - lookAhead)
    for (
      let skipBefore = least;
      skipBefore <= Math.min(steps, lookAhead);
      skipBefore += 1
    ) {
      const skipAfter = steps - skipBefore
      const [x, y] = [i + skipBefore, j + skipAfter]
      if (x < before.length && y < after.length && before[x] === after[y])
        return { skipBefore, skipAfter }
    }
  }
  return undefined
}

/** Milliseconds for which a long task may hold the event loop. What follows from each step
 * (promises, ticks, garbage) comes on top, and all else waits. */
const sliceMs = 3
/** Several tasks may follow each other in one turn: each leaves it with less than this. */
const remainderMs = 0.5

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
  await turn(remainderMs)
}
