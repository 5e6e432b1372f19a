import { type Cause, causeText } from './cause.ts'
import {
  dialBuckets,
  type DropReason,
  holdBuckets,
  type ListenerCounters,
} from './relay.ts'

/*
 * Counters of a listener as numbers in a row: threads share them so, and between processes
 * 10 000 objects of 30 named fields would be 30 MB a scrape.
 */

/** A counter that is one number. */
export type PlainCounter = {
  [K in keyof ListenerCounters]: ListenerCounters[K] extends number ? K : never
}[keyof ListenerCounters]

/** The compiler asks for each: one that is left out would be zero in all processes but its own. */
const keysOf = <K extends string>(all: Readonly<Record<K, unknown>>): readonly K[] =>
  Object.keys(all) as K[]

/** A gauge is what there is now: of what went with its process nothing is left. */
const kinds: Readonly<Record<PlainCounter, 'counter' | 'gauge'>> = {
  accepted: 'counter',
  active: 'gauge',
  dialAttempts: 'counter',
  dialRetries: 'counter',
  held: 'gauge',
  holdRefused: 'counter',
  queued: 'gauge',
  queueRefused: 'counter',
  bytesToBackend: 'counter',
  bytesToClient: 'counter',
  accessLines: 'counter',
  datagramsToBackend: 'counter',
  datagramsToClient: 'counter',
  dialSecondsSum: 'counter',
  holdSecondsSum: 'counter',
}

const plain = keysOf(kinds)

export const causes = keysOf<Cause>(causeText)

const dropReasons = keysOf<DropReason>({
  'no-endpoint': 0,
  refused: 0,
  'no-fd': 0,
  'send-failed': 0,
  draining: 0,
  loop: 0,
  'not-allowed': 0,
})

const places = <K extends string>(
  names: readonly K[],
  first: number,
): Readonly<Record<K, number>> =>
  Object.fromEntries(names.map((name, i) => [name, first + i])) as Record<K, number>

const firstCause = plain.length
const firstDrop = firstCause + causes.length
const firstBucket = firstDrop + dropReasons.length
const firstHoldBucket = firstBucket + dialBuckets.length + 1

/** Where each counter lies. */
export const counterCell = {
  plain: places(plain, 0),
  failed: places(causes, firstCause),
  dropped: places(dropReasons, firstDrop),
  dialSeconds: firstBucket,
  holdSeconds: firstHoldBucket,
  count: firstHoldBucket + holdBuckets.length + 1,
} as const

export const isGauge = (cell: number): boolean => {
  const name = plain[cell]
  return name !== undefined && kinds[name] === 'gauge'
}

/** Counts for one listener. */
export class Counters {
  readonly #page: Float64Array
  readonly #start: number

  /** Its cells are those of `page` from `start` on. */
  constructor(page: Float64Array = new Float64Array(counterCell.count), start = 0) {
    this.#page = page
    this.#start = start
  }

  /** Bytes that one read has moved; on the path of every read, hence without a look-up. */
  countBytes(toBackend: boolean, bytes: number): void {
    this.#bump(toBackend ? bytesToBackend : bytesToClient, bytes)
  }

  /** `amount` may be negative, for what goes up and down. */
  add(counter: PlainCounter, amount: number): void {
    this.#bump(counterCell.plain[counter], amount)
  }

  countFailure(cause: Cause): void {
    this.#bump(counterCell.failed[cause], 1)
  }

  countDrop(reason: DropReason): void {
    this.#bump(counterCell.dropped[reason], 1)
  }

  /** Files a successful dial of `ms` milliseconds into its bucket. */
  countDialTime(ms: number): void {
    this.#bump(counterCell.dialSeconds + bucketOf(dialBuckets, ms), 1)
    this.#bump(counterCell.plain.dialSecondsSum, ms / 1000)
  }

  /** Of a client that waited so long and then was connected. */
  countHoldTime(ms: number): void {
    this.#bump(counterCell.holdSeconds + bucketOf(holdBuckets, ms), 1)
    this.#bump(counterCell.plain.holdSecondsSum, ms / 1000)
  }

  totals(): ListenerCounters {
    return countersOf(cell => this.#page[this.#start + cell] ?? 0)
  }

  #bump(at: number, amount: number): void {
    const index = this.#start + at
    this.#page[index] = (this.#page[index] ?? 0) + amount
  }
}

const { bytesToBackend, bytesToClient } = counterCell.plain

/** The bucket that `ms` milliseconds belong to; `bounds` are in seconds. */
const bucketOf = (bounds: readonly number[], ms: number): number => {
  const seconds = ms / 1000
  let bucket = 0
  while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket += 1
  return bucket
}

/** `read` gives the number of a cell. */
export const countersOf = (read: (cell: number) => number): ListenerCounters => {
  const counters = newCounters()
  for (const name of plain) counters[name] = read(counterCell.plain[name])
  counters.failed = tally(causes, firstCause, read)
  counters.datagramsDropped = tally(dropReasons, firstDrop, read)
  for (const i of counters.dialSeconds.keys())
    counters.dialSeconds[i] = read(firstBucket + i)
  for (const i of counters.holdSeconds.keys())
    counters.holdSeconds[i] = read(firstHoldBucket + i)
  return counters
}

export const newCounters = (): ListenerCounters => ({
  ...zeros,
  failed: {},
  datagramsDropped: {},
  dialSeconds: Array<number>(dialBuckets.length + 1).fill(0),
  holdSeconds: Array<number>(holdBuckets.length + 1).fill(0),
})

const zeros = Object.fromEntries(plain.map(name => [name, 0])) as Record<
  PlainCounter,
  number
>

/** Without the zeros at the end: of most listeners that is nearly all. */
export const cellsOf = (counters: ListenerCounters): readonly number[] => {
  const { failed, datagramsDropped, dialSeconds, holdSeconds } = counters
  const cells = [
    ...plain.map(name => counters[name]),
    ...causes.map(cause => failed[cause] ?? 0),
    ...dropReasons.map(reason => datagramsDropped[reason] ?? 0),
    ...dialSeconds,
    ...holdSeconds,
  ]
  return cells.slice(0, 1 + cells.findLastIndex(count => count !== 0))
}

/** Only of what has been counted. */
const tally = <K extends string>(
  names: readonly K[],
  first: number,
  read: (cell: number) => number,
): Partial<Record<K, number>> => {
  const counts: Partial<Record<K, number>> = {}
  for (const [i, name] of names.entries()) {
    const count = read(first + i)
    if (count > 0) counts[name] = count
  }
  return counts
}
