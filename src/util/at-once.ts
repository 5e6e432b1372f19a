/** Calls `each` for each item, for at most so many at once; rejects with the first failure. */
export const forEachAtOnce = async <T>(
  most: number,
  items: Iterable<T>,
  each: (item: T) => Promise<void>,
): Promise<void> => {
  const queue = items[Symbol.iterator]()
  const lane = async (): Promise<void> => {
    for (let next = queue.next(); next.done !== true; next = queue.next())
      await each(next.value)
  }
  await Promise.all(Array.from({ length: most }, lane))
}
