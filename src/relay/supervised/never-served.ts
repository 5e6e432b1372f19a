import { RelayUnavailable, unavailable, type WantedRelay } from '../choose-relay.ts'
import type { Ending } from './data-plane-process.ts'

/** What native code did when it was tried for the first time. */
export class ProbeCrashed extends Error {}

/** Why there is no data plane, when the first one has ended before it could serve. */
export const neverServed = (
  { words, told, crashed }: Ending,
  wanted: WantedRelay,
): Error => {
  const detail = `the process that tried it ${words}`
  if (told?.unavailable === true) return new RelayUnavailable(told.why)
  if (crashed && wanted === 'auto') return new ProbeCrashed(detail)
  if (crashed && wanted === 'linux') return new RelayUnavailable(unavailable(detail))
  return new Error(
    `the data plane ${told === undefined ? words : `can't start: ${told.why}`}`,
  )
}
