import type { Cause } from './cause.ts'
import {
  dialBuckets,
  type DropReason,
  holdBuckets,
  type ListenerCounters,
} from './relay.ts'

export const newCounters = (): ListenerCounters => ({
  accepted: 0,
  active: 0,
  dialAttempts: 0,
  dialRetries: 0,
  held: 0,
  holdRefused: 0,
  queued: 0,
  queueRefused: 0,
  failed: {},
  bytesToBackend: 0,
  bytesToClient: 0,
  accessLines: 0,
  datagramsToBackend: 0,
  datagramsToClient: 0,
  datagramsDropped: {},
  dialSeconds: Array<number>(dialBuckets.length + 1).fill(0),
  dialSecondsSum: 0,
  holdSeconds: Array<number>(holdBuckets.length + 1).fill(0),
  holdSecondsSum: 0,
})

/** A counter that is one number. */
export type PlainCounter = {
  [K in keyof ListenerCounters]: ListenerCounters[K] extends number ? K : never
}[keyof ListenerCounters]

/** Counts for one listener. */
export class Counters {
  readonly totals = newCounters()

  add(counter: PlainCounter, amount: number): void {
    this.totals[counter] += amount
  }

  countFailure(cause: Cause): void {
    const { failed } = this.totals
    failed[cause] = (failed[cause] ?? 0) + 1
  }

  countDrop(reason: DropReason): void {
    const { datagramsDropped } = this.totals
    datagramsDropped[reason] = (datagramsDropped[reason] ?? 0) + 1
  }

  countDialTime(ms: number): void {
    const { dialSeconds } = this.totals
    const bucket = bucketOf(dialBuckets, ms)
    dialSeconds[bucket] = (dialSeconds[bucket] ?? 0) + 1
    this.totals.dialSecondsSum += ms / 1000
  }

  countHoldTime(ms: number): void {
    const { holdSeconds } = this.totals
    const bucket = bucketOf(holdBuckets, ms)
    holdSeconds[bucket] = (holdSeconds[bucket] ?? 0) + 1
    this.totals.holdSecondsSum += ms / 1000
  }
}

/** The bucket that `ms` milliseconds belong to; `bounds` are in seconds. */
export const bucketOf = (bounds: readonly number[], ms: number): number => {
  const seconds = ms / 1000
  let bucket = 0
  while (bucket < bounds.length && seconds > (bounds[bucket] ?? 0)) bucket += 1
  return bucket
}
