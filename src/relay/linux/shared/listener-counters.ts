import type { Cause } from '../../cause.ts'
import { counterCell as cell } from '../../counter-cells.ts'
import type { PlainCounter } from '../../counters.ts'
import { bucketOf } from '../../counters.ts'
import { dialBuckets, type DropReason, holdBuckets } from '../../relay.ts'
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
    this.#bump(cell.dialSeconds + bucketOf(dialBuckets, ms), 1)
    this.#bump(cell.plain.dialSecondsSum, ms / 1000)
  }

  /** Of a client that waited so long and then was connected. */
  countHoldTime(ms: number): void {
    this.#bump(cell.holdSeconds + bucketOf(holdBuckets, ms), 1)
    this.#bump(cell.plain.holdSecondsSum, ms / 1000)
  }

  #bump(at: number, amount: number): void {
    const index = this.#start + at
    this.#page[index] = (this.#page[index] ?? 0) + amount
  }
}
