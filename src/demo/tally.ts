import type { Answer } from './clients.ts'

/** Answers, counted. */
export interface Tally {
  readonly asked: number
  readonly failed: number
  /** Why the first that failed did; '' when none has. */
  readonly firstError: string
  readonly byBackend: ReadonlyMap<string, number>
}

export const tally = (answers: readonly Answer[]): Tally => {
  const byBackend = new Map<string, number>()
  let failed = 0
  let firstError = ''
  for (const answer of answers) {
    if ('backend' in answer) {
      byBackend.set(answer.backend, (byBackend.get(answer.backend) ?? 0) + 1)
    } else {
      failed += 1
      firstError ||= answer.error
    }
  }
  return { asked: answers.length, failed, firstError, byBackend }
}

/** `web-1 10, web-2 20`, or `none`. */
export const shares = ({ byBackend }: Tally): string =>
  [...byBackend].map(([name, count]) => `${name} ${count}`).join(', ') || 'none'

/** `3 of 30 requests failed (connect ECONNREFUSED ...)`. */
export const failures = (counted: Tally, what: string): string =>
  `${counted.failed} of ${counted.asked} ${what} failed (${counted.firstError})`

/** Asks `count` times at once. */
export const askTogether = async (
  count: number,
  ask: () => Promise<Answer>,
): Promise<Tally> => tally(await Promise.all(Array.from({ length: count }, ask)))

interface Bar {
  readonly name: string
  readonly count: number
  readonly note?: string
}

const widest = 30

/** A row for each: the name, a bar to scale (at most 30 wide), the count and the note. */
export const bars = (rows: readonly Bar[]): string[] => {
  const names = Math.max(...rows.map(({ name }) => name.length))
  const most = Math.max(1, ...rows.map(({ count }) => count))
  const scale = Math.min(1, widest / most)
  const digits = String(most).length
  return rows.map(({ name, count, note = '' }) => {
    const bar = '█'.repeat(count === 0 ? 0 : Math.max(1, Math.round(count * scale)))
    const space = ' '.repeat(Math.round(most * scale) - bar.length)
    const number = String(count).padStart(digits)
    return `${name.padEnd(names)}  ${bar}${space}  ${number}  ${note}`.trimEnd()
  })
}
