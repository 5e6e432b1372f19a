import type { Cause } from './cause.ts'
import type { Bind } from './relay.ts'
import { dialBuckets, type DropReason, type ListenerCounters } from './relay.ts'

export const newCounters = (): ListenerCounters => ({
  accepted: 0,
  active: 0,
  dialAttempts: 0,
  dialRetries: 0,
  failed: {},
  bytesToBackend: 0,
  bytesToClient: 0,
  datagramsToBackend: 0,
  datagramsToClient: 0,
  datagramsDropped: {},
  dialSeconds: Array<number>(dialBuckets.length + 1).fill(0),
  dialSecondsSum: 0,
})

export const countFailure = (counters: ListenerCounters, cause: Cause): void => {
  counters.failed[cause] = (counters.failed[cause] ?? 0) + 1
}

export const countDrop = (counters: ListenerCounters, reason: DropReason): void => {
  counters.datagramsDropped[reason] = (counters.datagramsDropped[reason] ?? 0) + 1
}

/** Files a successful dial of `ms` milliseconds into its bucket. */
export const countDialTime = (counters: ListenerCounters, ms: number): void => {
  const seconds = ms / 1000
  let bucket = 0
  while (bucket < dialBuckets.length && seconds > (dialBuckets[bucket] ?? 0)) bucket += 1
  counters.dialSeconds[bucket] = (counters.dialSeconds[bucket] ?? 0) + 1
  counters.dialSecondsSum += seconds
}

/** A bind as the key of a map. */
export const bindKey = (bind: Bind): string => `${bind.address} ${bind.port}`
