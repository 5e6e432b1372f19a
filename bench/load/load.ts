import { readdirSync, readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { createHistogram, performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { machineBusySeconds, readUsage } from '../process/usage.ts'
import type { LoadAnswer, Percentiles, Pids } from './question.ts'

/** What a load found out besides how much it got done. */
export type Findings = Partial<
  Pick<LoadAnswer, 'done' | 'latency' | 'connect' | 'late' | 'tried' | 'besideBytes'>
>

/** Traffic that is running: a generator pours it until it is told to stop. */
export interface Load {
  /** Requests, connections, bytes or datagrams that have come back so far. */
  done(): number
  /** What went wrong so far, by errno code or in words. */
  readonly errors: ErrorCounts
  /** Resolves when it can pour, whether the target takes it or not. */
  ready?(): Promise<void>
  /** The window opens with the first that is poured, and not after a settling time. */
  readonly isFromTheFirst?: boolean
  /** The measured window opens: times are taken from here on. */
  openWindow?(): void
  /**
   * The window is over. Resolves when what was on its way has come back or counts as
   * failed, within seconds.
   */
  closeWindow?(): Promise<void>
  /** Told at the end; a `done` in it stands in place of the one of the window. */
  findings?(): Findings
  /** Ends everything. Resolves when no socket, timer or thread of it is left. */
  stop(): Promise<void>
}

/** For connections to be made and queues to fill before the window opens. */
export const settleMs = 200

/**
 * Counts what a load gets done in a window of `seconds`, then stops it. Counters and CPU
 * times are read in the generator itself, so that they are of the same instant.
 */
export const measureLoad = async (
  load: Load,
  seconds: number,
  pids: Pids,
): Promise<LoadAnswer> => {
  try {
    // Opened first: what is poured as soon as it can be would come before it.
    if (load.isFromTheFirst === true) load.openWindow?.()
    await load.ready?.()
    if (load.isFromTheFirst !== true) {
      await sleep(settleMs)
      load.openWindow?.()
    }
    const before = load.done()
    const watch = watchCpu(pids)
    await sleep(seconds * 1000)
    const counted = load.done() - before
    const watched = watch()
    await load.closeWindow?.()
    const { tried = 0, ...found } = { done: counted, ...load.findings?.() }
    // Told only where not all of them were done.
    const missed = tried > found.done ? { tried } : {}
    return { ...watched, ...found, ...missed, errors: load.errors.counts }
  } finally {
    await load.stop()
  }
}

/** What was used between two moments. */
export type Watched = Pick<
  LoadAnswer,
  'seconds' | 'cores' | 'proxyCpuSeconds' | 'allCpuSeconds'
>

/** Reads the CPU times from now on; the function returned tells what came of it. */
export const watchCpu = (pids: Pids): (() => Watched) => {
  const before = snapshot(pids)
  return () => {
    const after = snapshot(pids)
    const seconds = (after.at - before.at) / 1000
    const generator = after.generator - before.generator
    const proxy = after.proxy - before.proxy
    const each = after.backends.map((cpu, at) => cpu - (before.backends[at] ?? unknown))
    const backend = each.reduce((sum, cpu) => sum + cpu, 0)
    const all = generator + backend + proxy
    const others = Math.max(0, after.machine - before.machine - all)
    const hasBackends = each.length > 0
    const hasProxy = pids.proxy.length > 0
    return {
      seconds,
      cores: present({
        generator: generator / seconds,
        backend: hasBackends ? backend / seconds : undefined,
        busiestBackend: hasBackends ? Math.max(...each) / seconds : undefined,
        proxy: hasProxy ? proxy / seconds : undefined,
        others: others / seconds,
      }),
      ...present({ proxyCpuSeconds: hasProxy ? proxy : undefined, allCpuSeconds: all }),
    }
  }
}

/** What the system doesn't tell; so is all that is reckoned with it. */
const unknown = Number.NaN

const snapshot = (pids: Pids) => ({
  at: performance.now(),
  machine: machineBusySeconds(),
  generator: ownCpuSeconds(),
  backends: pids.backend.map(pid => readUsage([pid])?.cpuSeconds ?? unknown),
  proxy: readUsage(pids.proxy)?.cpuSeconds ?? unknown,
})

/** Of this process with its threads and the children that have ended, such as wrk(1). */
const ownCpuSeconds = (): number => {
  const usage = readUsage([process.pid])
  if (usage !== undefined) return usage.cpuSeconds
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

/** Errors that differ by more names than this are counted as one. */
const mostNames = 50

/** Counts failures by name. */
export class ErrorCounts {
  readonly #counts = new Map<string, number>()

  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts)
  }

  add(name: string, times = 1): void {
    if (!(times > 0)) return
    const known = this.#counts.has(name) || this.#counts.size < mostNames
    const kept = known ? name : 'other errors'
    this.#counts.set(kept, (this.#counts.get(kept) ?? 0) + times)
  }
}

/** Failures of several, by name. */
export const sumOfCounts = (
  ...all: readonly Readonly<Record<string, number>>[]
): Readonly<Record<string, number>> => {
  const sum: Record<string, number> = {}
  for (const [name, times] of all.flatMap(counts => Object.entries(counts)))
    sum[name] = (sum[name] ?? 0) + times
  return sum
}

/** The errno code where there is one, else the message. */
export const errorName = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return 'code' in error ? String(error.code) : error.message
}

const nsPerMs = 1e6

/** Durations, kept in so much memory however many there are, to a thousandth of each. */
export class Timings {
  readonly #histogram = createHistogram({ lowest: 1, highest: 3.6e12, figures: 3 })

  /** @param ms - at most an hour; below a nanosecond counts as one. */
  record(ms: number): void {
    this.#histogram.record(Math.max(1, Math.round(ms * nsPerMs)))
  }

  clear(): void {
    this.#histogram.reset()
  }

  /** In milliseconds; undefined when there are none. */
  percentiles(): Percentiles | undefined {
    const histogram = this.#histogram
    if (histogram.count === 0) return undefined
    const at = (percent: number): number => histogram.percentile(percent) / nsPerMs
    return {
      p50: at(50),
      p90: at(90),
      p99: at(99),
      p999: at(99.9),
      max: histogram.max / nsPerMs,
      count: histogram.count,
    }
  }
}

/** Leaves out what there is none of, or is not known, as optional properties want it. */
export const present = <T extends object>(
  values: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } => {
  const kept = Object.entries(values).filter(
    ([, value]) => value !== undefined && !Number.isNaN(value),
  )
  return Object.fromEntries(kept) as { [K in keyof T]?: Exclude<T[K], undefined> }
}

/** Ends sockets at once. Resolves when they are closed. */
export const destroyAll = async (sockets: Iterable<Socket>): Promise<void> => {
  await Promise.all(
    Array.from(
      sockets,
      socket =>
        new Promise<void>(resolve => {
          if (socket.closed) return resolve()
          socket.once('close', () => resolve()).destroy()
        }),
    ),
  )
}

/** Kept for what else needs a descriptor. */
const reserve = 64
/** Where the limit can't be read: what most systems allow at least. */
const usualLimit = 1024

/** How many sockets this process can still open (`ulimit -n`). */
export const freeDescriptors = (): number => {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
    return Math.max(1, limit - readdirSync('/proc/self/fd').length - reserve)
  } catch {
    return usualLimit - reserve
  }
}
