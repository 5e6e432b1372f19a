import { type Cause, causeText } from './cause.ts'

/*
 * Counters of a listener as numbers in a row: threads share them so, and between processes
 * 10 000 objects of 30 named fields would be 30 MB a scrape.
 */

/**
 * Counters of one number, a row each: what it counts, and whether it only grows. A gauge is what there is
 * now: of what went with its process nothing is left. What is shown of it is a row of relay-metrics.ts.
 */
const kinds = {
  accepted: 'counter',
  /** TCP connections, or UDP flows, that are open now. */
  active: 'gauge',
  dialAttempts: 'counter',
  dialRetries: 'counter',
  /** Clients that wait now for an endpoint to come back. */
  held: 'gauge',
  /** Clients that should have waited, and were refused because too many did. */
  holdRefused: 'counter',
  /** Clients that wait now for a place at an endpoint. */
  queued: 'gauge',
  /** Clients that should have waited for one, and were refused because too many did. */
  queueRefused: 'counter',
  /** Bytes of connections that have ended; those of open ones are added when read. */
  bytesToBackend: 'counter',
  bytesToClient: 'counter',
  /** Lines of the access log that were made, whatever has become of them. */
  accessLines: 'counter',
  datagramsToBackend: 'counter',
  datagramsToClient: 'counter',
  /** Seconds, of what `dialSeconds` counts. */
  dialSecondsSum: 'counter',
  holdSecondsSum: 'counter',
} as const satisfies Readonly<Record<string, 'counter' | 'gauge'>>

export type PlainCounter = keyof typeof kinds

/** Why a datagram was not passed on. */
const dropReasons = [
  'no-endpoint',
  /** Every endpoint refused (ICMP port unreachable). */
  'refused',
  /** No descriptor was left, and no flow to take one from. */
  'no-fd',
  'send-failed',
  /** Usher is shutting down and takes no new flows. */
  'draining',
  /** It claimed to come from a listener of Usher's own, or from port 0; or see `endsRing`. */
  'loop',
  /** The client is outside of the source ranges, or its policy leaves it no endpoint. */
  'not-allowed',
] as const

export type DropReason = (typeof dropReasons)[number]

/** Totals of one listener since the process started. Plain numbers, bumped in place. */
export interface ListenerCounters extends Record<PlainCounter, number> {
  /** Connections that ended in each abnormal way; see cause.ts. */
  failed: Partial<Record<Cause, number>>
  datagramsDropped: Partial<Record<DropReason, number>>
  /** Counts per bucket of `dialBuckets` (the last is +Inf). */
  dialSeconds: number[]
  /** The same by `holdBuckets`: how long clients waited that were connected in the end. */
  holdSeconds: number[]
}

/** Upper bounds, in seconds, of the buckets of `dialSeconds`. */
export const dialBuckets: readonly number[] = [
  0.0005, 0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5,
]

/** Of those of `holdSeconds`. */
export const holdBuckets: readonly number[] = [0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300]

/** The compiler asks for each: one that is left out would be zero in all processes but its own. */
const keysOf = <K extends string>(all: Readonly<Record<K, unknown>>): readonly K[] =>
  Object.keys(all) as K[]

const plain = keysOf(kinds)

export const causes = keysOf<Cause>(causeText)

const places = <K extends string>(
  names: readonly K[],
  first: number,
): Readonly<Record<K, number>> =>
  Object.fromEntries(names.map((name, i) => [name, first + i])) as Record<K, number>

const firstCause = plain.length
const firstDrop = firstCause + causes.length
const firstBucket = firstDrop + dropReasons.length
const firstHoldBucket = firstBucket + dialBuckets.length + 1
const firstTime = firstHoldBucket + holdBuckets.length + 1

/** Where each counter lies. */
export const counterCell = {
  plain: places(plain, 0),
  failed: places(causes, firstCause),
  dropped: places(dropReasons, firstDrop),
  dialSeconds: firstBucket,
  holdSeconds: firstHoldBucket,
  /** By the clock that all threads agree on, in milliseconds; 0: never. Of several workers the latest counts. */
  servedAt: firstTime,
  unservedAt: firstTime + 1,
  count: firstTime + 2,
} as const

export const gaugeCells: readonly number[] = plain.flatMap(name =>
  kinds[name] === 'gauge' ? [counterCell.plain[name]] : [],
)

/** Counts for one listener. */
export class Counters {
  readonly #page: Float64Array
  readonly #start: number

  /** Its cells are those of `page` from `start` on. */
  constructor(page: Float64Array, start: number) {
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

  /** A client has got an endpoint now, or it was given up to find one for it; `now`: see `counterCell`. */
  clientServed(wasServed: boolean, now: number): void {
    const cell = wasServed ? counterCell.servedAt : counterCell.unservedAt
    this.#page[this.#start + cell] = now
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

/** Of an older version, which may not know all. */
type CountedElsewhere = Omit<ListenerCounters, PlainCounter> &
  Partial<Record<PlainCounter, number>>

/** Without the zeros at the end: of most listeners that is nearly all. */
export const cellsOf = (counters: CountedElsewhere): readonly number[] => {
  const { failed, datagramsDropped, dialSeconds, holdSeconds } = counters
  const cells = [
    ...plain.map(name => counters[name] ?? 0),
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
