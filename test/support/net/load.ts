import { setTimeout as sleep } from 'node:timers/promises'
import { dial } from './dial.ts'
import type { Destination, LoadReport, Result } from './outcome.ts'

export interface Load {
  /** Starts no more connections, and tells when the last one has ended. */
  end(): Promise<LoadReport>
}

const mostFailures = 20

/** New connections to all of them all the time; to each, the next when one has ended. */
export const startLoad = (
  to: readonly Destination[],
  pauseMs: number,
  timeoutMs: number,
): Load => {
  const began = performance.now()
  const counts: Partial<Record<Result, number>> = {}
  const failures: { afterMs: number; result: Result }[] = []
  let slowestMs = 0
  const ending = new AbortController()
  const one = async (destination: Destination): Promise<void> => {
    while (!ending.signal.aborted) {
      const afterMs = Math.round(performance.now() - began)
      const { result, ms } = await dial(destination, timeoutMs)
      counts[result] = (counts[result] ?? 0) + 1
      if (result === 'answer') slowestMs = Math.max(slowestMs, ms)
      else if (failures.length < mostFailures) failures.push({ afterMs, result })
      await sleep(pauseMs)
    }
  }
  const all = Promise.all(to.map(one))
  return {
    end: async () => {
      ending.abort()
      await all
      return { counts, slowestMs, failures }
    },
  }
}
