import type { KubeObject } from './kube-object.ts'
import { type SeedOptions, seedSlice } from './seed.ts'

/** Endpoints that come and go at a steady rate. */
export interface Churn {
  /** Ends it; gives the Unix time (ms, with fractions) of each change. */
  stop(): readonly number[]
}

const tickMs = 10

/**
 * Changes one endpoint of one slice after the other, `perSecond` times a second; each
 * slice says when. Falls behind for as long as the process is busy, and then catches up.
 */
export const startChurn = (
  seeded: SeedOptions,
  perSecond: number,
  apply: (object: KubeObject) => void,
): Churn => {
  const made: number[] = []
  const startedAt = performance.now()
  const timer = setInterval(() => {
    const due = ((performance.now() - startedAt) / 1000) * perSecond
    while (made.length < due) {
      // A stride that shares no factor with usual sizes: neighbours are not touched in turn.
      const slice = (made.length * 7919) % seeded.services
      const turn = 1 + Math.floor(made.length / seeded.services)
      const at = unixNow()
      apply(seedSlice(slice, seeded.endpointsPerSlice, turn, at))
      made.push(at)
    }
  }, tickMs)
  return {
    stop: () => {
      clearInterval(timer)
      return made
    },
  }
}

/** Unix time in milliseconds, finer than Date's. */
export const unixNow = (): number => performance.timeOrigin + performance.now()
