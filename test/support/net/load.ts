import { setTimeout as sleep } from 'node:timers/promises'
import { dial } from './dial.ts'
import type { Destination, LoadFailure, LoadReport, Result } from './outcome.ts'

export interface Load {
  /** Starts no more connections, and tells when the last one has ended. */
  end(): Promise<LoadReport>
}

const mostFailures = 1000

/**
 * New connections to all of them all the time; to each, the next when one has ended. They are
 * spread over the pause: what fails for a few milliseconds only would not be met by clients
 * that all come at once, however often.
 */
export const startLoad = (
  to: readonly Destination[],
  pauseMs: number,
  timeoutMs: number,
): Load => {
  const counts: Partial<Record<Result, number>> = {}
  const failures: LoadFailure[] = []
  let slowestMs = 0
  const ending = new AbortController()
  const one = async (destination: Destination, place: number): Promise<void> => {
    await sleep((pauseMs * place) / to.length)
    while (!ending.signal.aborted) {
      const startedAt = Date.now()
      const { result, ms } = await dial(destination, timeoutMs)
      counts[result] = (counts[result] ?? 0) + 1
      if (result === 'answer') slowestMs = Math.max(slowestMs, ms)
      else if (failures.length < mostFailures)
        failures.push({ startedAt, ms, result, ...destination })
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
