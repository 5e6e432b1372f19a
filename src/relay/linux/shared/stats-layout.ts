import type { Cause } from '../../cause.ts'
import { causeText } from '../../cause.ts'
import { type DropReason, dialBuckets } from '../../relay.ts'

/** The figures of a listener, each a 64-bit float in memory that workers share. */
const plain = [
  'accepted',
  'active',
  'dialAttempts',
  'dialRetries',
  'bytesToBackend',
  'bytesToClient',
  'datagramsToBackend',
  'datagramsToClient',
  'dialSecondsSum',
] as const

export type PlainCounter = (typeof plain)[number]

export const causes = Object.keys(causeText) as readonly Cause[]

export const dropReasons = [
  'no-endpoint',
  'refused',
  'no-fd',
  'send-failed',
  'draining',
  'loop',
  'not-allowed',
] as const satisfies readonly DropReason[]

const places = <K extends string>(
  names: readonly K[],
  first: number,
): Readonly<Record<K, number>> =>
  Object.fromEntries(names.map((name, i) => [name, first + i])) as Record<K, number>

const firstCause = plain.length
const firstDrop = firstCause + causes.length
const firstBucket = firstDrop + dropReasons.length

/** Where each figure of a listener lies, counted from the listener's first. */
export const listenerCell = {
  plain: places(plain, 0),
  failed: places(causes, firstCause),
  dropped: places(dropReasons, firstDrop),
  dialSeconds: firstBucket,
  count: firstBucket + dialBuckets.length + 1,
} as const

/** The figures of one of a listener's endpoints. */
export const endpointCell = {
  active: 0,
  failures: 1,
  /** Monotonic milliseconds until which others are preferred; see `Balancer.failed`. */
  restingUntil: 2,
  /** Smoothed round-trip time in microseconds as the kernel last told it; 0: not yet. */
  rttUs: 3,
  /** Segments sent again on the connections that were asked. */
  retransmits: 4,
  count: 5,
} as const

/** Listeners, or endpoints, in one page of memory. */
export const slotsPerPage = 1024
