import type { Cause } from '../../cause.ts'
import { newCounters } from '../../counters.ts'
import { dialBuckets, type DropReason, type ListenerCounters } from '../../relay.ts'
import {
  causes,
  dropReasons,
  listenerCell as cell,
  type PlainCounter,
} from './stats-layout.ts'
import type { StatsPages } from './stats-pages.ts'

const { bytesToBackend, bytesToClient } = cell.plain

/** A worker's own figures of one listener. */
export class CounterWriter {
  readonly #page: Float64Array
  readonly #start: number

  constructor(pages: StatsPages, slot: number) {
    this.#page = pages.pageOf(slot)
    this.#start = pages.offsetOf(slot)
  }

  /** Bytes that one read has moved; on the path of every read, hence without a look-up. */
  countBytes(toBackend: boolean, bytes: number): void {
    this.#bump(toBackend ? bytesToBackend : bytesToClient, bytes)
  }

  /** `amount` may be negative, for what goes up and down. */
  add(counter: PlainCounter, amount: number): void {
    this.#bump(cell.plain[counter], amount)
  }

  countFailure(cause: Cause): void {
    this.#bump(cell.failed[cause], 1)
  }

  countDrop(reason: DropReason): void {
    this.#bump(cell.dropped[reason], 1)
  }

  /** Files a successful dial of `ms` milliseconds into its bucket. */
  countDialTime(ms: number): void {
    const seconds = ms / 1000
    let bucket = 0
    while (bucket < dialBuckets.length && seconds > (dialBuckets[bucket] ?? 0))
      bucket += 1
    this.#bump(cell.dialSeconds + bucket, 1)
    this.#bump(cell.plain.dialSecondsSum, seconds)
  }

  #bump(at: number, amount: number): void {
    const index = this.#start + at
    this.#page[index] = (this.#page[index] ?? 0) + amount
  }
}

/** The sum of several workers' figures of one listener. */
export const readCounters = (
  workers: readonly StatsPages[],
  slot: number,
): ListenerCounters => {
  const counters = newCounters()
  for (const pages of workers) addTo(counters, pages, slot)
  return counters
}

const addTo = (counters: ListenerCounters, pages: StatsPages, slot: number): void => {
  const read = (at: number): number => pages.read(slot, at)
  for (const [name, at] of Object.entries(cell.plain)) {
    counters[name as PlainCounter] += read(at)
  }
  for (const cause of causes) {
    const count = read(cell.failed[cause])
    if (count > 0) counters.failed[cause] = (counters.failed[cause] ?? 0) + count
  }
  for (const reason of dropReasons) {
    const count = read(cell.dropped[reason])
    const { datagramsDropped } = counters
    if (count > 0) datagramsDropped[reason] = (datagramsDropped[reason] ?? 0) + count
  }
  for (const [i, count] of counters.dialSeconds.entries()) {
    counters.dialSeconds[i] = count + read(cell.dialSeconds + i)
  }
}
