import type { Clock } from '../../src/util/clock.ts'
import { SyncRunner } from '../../src/util/sync-runner.ts'
import type { StreamDone, StreamWish } from './protocol.ts'
import { spending } from './usage.ts'

export interface StreamDeps {
  readonly clock: Clock
  /** Makes the n-th change. */
  readonly change: (n: number) => void
  /** Writes all that has changed. */
  readonly sync: () => Promise<unknown>
}

/** Milliseconds; the steps of a timer are coarser than the changes may be. */
const tickMs = 5

/**
 * Makes changes at an even rate and has them written as `usher run` does: those that come while
 * a sync waits or is under way are taken together by the next one. Rejects when a sync fails.
 */
export const stream = async (
  deps: StreamDeps,
  { seconds, perSecond, minSyncMs }: StreamWish,
): Promise<StreamDone> => {
  const changes = Math.round(seconds * perSecond)
  const spent = spending()
  const { appliedMs, syncs } = await applied(deps, changes, perSecond, minSyncMs)
  return { appliedMs, syncs, ...spent() }
}

const applied = (
  { clock, change, sync }: StreamDeps,
  changes: number,
  perSecond: number,
  minSyncMs: number,
): Promise<Pick<StreamDone, 'appliedMs' | 'syncs'>> =>
  new Promise((resolve, reject) => {
    const appliedMs: number[] = []
    const startedAt = clock.now()
    let [made, syncs] = [0, 0]
    let waiting: number[] = []
    const end = (): void => {
      clearInterval(ticker)
      runner.close()
    }
    const runner = new SyncRunner({
      clock,
      mostWaitMs: minSyncMs,
      maxMs: Infinity,
      sync: async () => {
        const taken = waiting
        waiting = []
        await sync()
        syncs += 1
        for (const at of taken) appliedMs.push(clock.now() - at)
        if (appliedMs.length < changes) return
        end()
        resolve({ appliedMs, syncs })
      },
      failed: error => {
        end()
        reject(error instanceof Error ? error : new Error(String(error)))
      },
    })
    const ticker = setInterval(() => {
      const due = Math.min(changes, ((clock.now() - startedAt) / 1000) * perSecond)
      if (made >= due) return
      for (; made < due; made += 1) {
        // As of when it was due: a ticker that comes late is what others wait for, too.
        waiting.push(startedAt + (made * 1000) / perSecond)
        change(made)
      }
      runner.request()
    }, tickMs)
  })
