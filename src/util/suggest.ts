/** Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`. */
const distance = (a: string, b: string): number => {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const next = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      next[column] = Math.min(
        (last[column] ?? 0) + 1,
        (next[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    beforeLast = last
    last = next
  }
  return last[b.length] ?? 0
}

/** Names of any number may be known, and a word be of any length: this much is compared. */
const mostCompared = 2000

/**
 * The one of `known` that `word` was probably meant to be: the nearest by few edits, or
 * the only one it is the beginning of. Undefined when none is near.
 */
export const suggest = (word: string, known: readonly string[]): string | undefined => {
  const allowed = word.length < 4 ? 1 : word.length < 8 ? 2 : 3
  let best: string | undefined
  let fewest = allowed + 1
  const near = known.filter(one => Math.abs(one.length - word.length) <= allowed)
  for (const candidate of near.slice(0, mostCompared)) {
    const edits = distance(word, candidate)
    if (edits < fewest) [best, fewest] = [candidate, edits]
  }
  if (best !== undefined || word.length < 3) return best
  const longer = known.filter(candidate => candidate.startsWith(word))
  return longer.length === 1 ? longer[0] : undefined
}

/**
 * `is unknown; did you mean replay?` `elsewhere`: what others call one of `known`, by its letters
 * alone, in lower case.
 */
export const unknownName = (
  name: string,
  known: readonly string[],
  elsewhere: ReadonlyMap<string, string> = new Map(),
): string => {
  const word = letters(name)
  const wanted = elsewhere.get(word)?.toLowerCase() ?? word
  const meant =
    known.find(each => letters(each) === wanted) ?? suggest(name.toLowerCase(), known)
  return `is unknown; ${meant === undefined ? `give ${orList(known)}` : `did you mean ${meant}?`}`
}

/** `retryearlyclose`, for `retry-early-close` too. */
const letters = (text: string): string => text.replaceAll(/[-_ ]/g, '').toLowerCase()

/** `a, b or c`. */
export const orList = (words: readonly string[]): string =>
  words.length < 2
    ? words.join('')
    : `${words.slice(0, -1).join(', ')} or ${words.at(-1) ?? ''}`
