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

/** `web-1 10, web-2 20`, or `nobody`. */
export const shares = ({ byBackend }: Tally): string =>
  [...byBackend].map(([name, count]) => `${name} ${count}`).join(', ') || 'nobody'

/** `3 of 30 requests failed (connect ECONNREFUSED ...)`. */
export const failures = (counted: Tally, what: string): string =>
  `${counted.failed} of ${counted.asked} ${what} failed (${counted.firstError})`

/** Asks `count` times at once. */
export const askTogether = async (
  count: number,
  ask: () => Promise<Answer>,
): Promise<Tally> => tally(await Promise.all(Array.from({ length: count }, ask)))
