import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import type { Clock } from '../../src/util/clock.ts'
import { SyncRunner } from '../../src/util/sync-runner.ts'
import { processTree, readUsage } from '../process/usage.ts'

/** Starts to measure; the function says what was spent since, in milliseconds. */
export const spending = () => {
  const tools = toolCpuMs()
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  return () => {
    const wallMs = performance.now() - startedAt
    const { user, system } = process.cpuUsage(cpu)
    return {
      wallMs,
      /** Of this process. */
      cpuMs: (user + system) / 1000,
      /** Of all tools, those that only look among them; a multiple of 10. */
      toolCpuMs: toolCpuMs() - tools,
    }
  }
}

/**
 * Of this process's children, those that run and those that have ended. The kernel counts them
 * in ticks of 10 ms, but adds them up exactly.
 */
const toolCpuMs = (): number => {
  const children = processTree(process.pid).filter(pid => pid !== process.pid)
  const running = readUsage(children)?.cpuSeconds ?? 0
  const stat = readFileSync('/proc/self/stat', 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return running * 1000 + (Number(fields[13]) + Number(fields[14])) * 10
}

/** Endpoint changes that don't wait for each other. */
export interface StreamWish {
  /** 0: there is to be none. */
  readonly seconds: number
  readonly perSecond: number
  /** As --min-sync-period. */
  readonly minSyncMs: number
}

/** What became of them. */
interface Applied {
  /** From each change to the end of the sync that wrote it. */
  readonly appliedMs: readonly number[]
  readonly syncs: number
}

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
export const stream = async (deps: StreamDeps, wish: StreamWish) => {
  const spent = spending()
  const done = await applied(deps, wish)
  return { ...done, ...spent() }
}

const applied = (
  { clock, change, sync }: StreamDeps,
  { seconds, perSecond, minSyncMs }: StreamWish,
): Promise<Applied> =>
  new Promise((resolve, reject) => {
    const changes = Math.round(seconds * perSecond)
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
