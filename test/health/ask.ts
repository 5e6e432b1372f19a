import type { CheckOutcome } from '../../src/health/check.ts'
import { decodeCheck, checkFaults } from '../../src/health/check-option.ts'
import type { Check } from '../../src/health/check-option.ts'
import { makeCheck } from '../../src/health/make-check.ts'
import { until } from '../support/until.ts'

/** What a check says of a server once, in words: `up`, `up: ...` or `down: ...`. */
export const ask = async (
  check: string | Check,
  port: number,
  address = '127.0.0.1',
  timeoutMs = 5000,
): Promise<string> => {
  const faults = checkFaults(check)
  if (faults.length > 0) throw new Error(JSON.stringify(faults))
  const endpoint = { address, port, host: '' }
  const { signal } = new AbortController()
  const run = makeCheck(decodeCheck(check).check)
  return inWords(await run(endpoint, { timeoutMs, signal }))
}

const inWords = (outcome: CheckOutcome): string => {
  if (!outcome.ok) return `down: ${outcome.reason}`
  return outcome.note === undefined ? 'up' : `up: ${outcome.note}`
}

/** Until a server is found as it should be. */
export const untilAsked = (
  check: string | Check,
  port: number,
  wanted: RegExp,
): Promise<void> => {
  let last = ''
  return until(`${JSON.stringify(check)} says ${wanted}`, async () => {
    last = await ask(check, port)
    return wanted.test(last)
  }).catch((error: unknown) => {
    throw new Error(`the last answer was ${last}`, { cause: error })
  })
}
