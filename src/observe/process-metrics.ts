import { readdir } from 'node:fs/promises'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { counter, gauge, type Metric, type Sample } from './exposition.ts'

type Table<T> = readonly Metric<T>[]

/** Milliseconds between two looks at the event loop; part of each measured value. */
const delayResolutionMs = 100
/** Nobody asks any more: longer than between two scrapes. */
const unaskedMs = 300_000

/**
 * Figures of the process. Own code instead of prom-client's default set, which reads
 * /proc/self/fd synchronously and lists all handles: 12 ms of a stopped event loop at
 * 8000 sockets.
 */
export interface ProcessFigures {
  readonly cpuSeconds: number
  /** Unix time, seconds. */
  readonly startedAt: number
  readonly memory: NodeJS.MemoryUsage
  readonly openFds: number | undefined
  /** Of the time since the last reading, 0 to 1. */
  readonly utilization: number
  /** Quantiles and seconds, since the last reading. */
  readonly delays: readonly (readonly [quantile: number, seconds: number])[]
}

/**
 * Until `close`. The event loop is looked at ten times a second, which is most of what a process at
 * rest does: so for who asks only, from the first `read` on.
 */
export class ProcessWatch {
  readonly #startedAt = Date.now() / 1000 - process.uptime()
  readonly #delay = monitorEventLoopDelay({ resolution: delayResolutionMs })
  readonly #unasked = setTimeout(() => this.#delay.disable(), unaskedMs).unref()
  #before = performance.eventLoopUtilization()

  async read(): Promise<ProcessFigures> {
    this.#delay.enable()
    this.#unasked.refresh()
    const { user, system } = process.cpuUsage()
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, this.#before)
    this.#before = now
    const delays = [0.5, 0.99, 1].map(
      quantile => [quantile, this.#late(quantile)] as const,
    )
    this.#delay.reset()
    return {
      cpuSeconds: (user + system) / 1e6,
      startedAt: this.#startedAt,
      memory: process.memoryUsage(),
      openFds: await countOpenFds(),
      utilization,
      delays,
    }
  }

  close(): void {
    clearTimeout(this.#unasked)
    this.#delay.disable()
  }

  #late(quantile: number): number {
    // Each value holds the interval between two looks too.
    const late = this.#delay.percentile(quantile * 100) / 1e9 - delayResolutionMs / 1000
    return Math.max(0, late)
  }
}

/** Read without blocking: a busy proxy has thousands of entries. */
const countOpenFds = async (): Promise<number | undefined> =>
  process.platform === 'linux'
    ? // One of them is the directory being read.
      (await readdir('/proc/self/fd')).length - 1
    : undefined

/** Of the process, named as Prometheus' client libraries do. */
export const processTable: Table<ProcessFigures> = [
  counter(
    'process_cpu_seconds_total',
    'CPU time the process has used, in user and system mode together.',
    ({ cpuSeconds }) => cpuSeconds,
  ),
  gauge(
    'process_start_time_seconds',
    'When the process started (Unix time).',
    ({ startedAt }) => startedAt,
  ),
  gauge(
    'process_resident_memory_bytes',
    'Memory of the process that is in RAM.',
    ({ memory }) => memory.rss,
  ),
  gauge(
    'nodejs_heap_size_total_bytes',
    'Memory V8 has reserved for JavaScript objects.',
    ({ memory }) => memory.heapTotal,
  ),
  gauge(
    'nodejs_heap_size_used_bytes',
    'Memory JavaScript objects use.',
    ({ memory }) => memory.heapUsed,
  ),
  gauge(
    'nodejs_external_memory_bytes',
    'Memory of buffers outside the JavaScript heap.',
    ({ memory }) => memory.external,
  ),
  ...(process.platform === 'linux'
    ? [
        gauge<ProcessFigures>(
          'process_open_fds',
          'File descriptors the whole process has open.',
          ({ openFds }) => openFds,
        ),
      ]
    : []),
  gauge(
    'usher_event_loop_utilization',
    'Share of the time since the last scrape in which the event loop was busy, 0 to 1.',
    ({ utilization }) => utilization,
  ),
  gauge(
    'usher_event_loop_delay_seconds',
    'Event loop delay since the last scrape, which adds to the latency of connections. Quantile 1 is the maximum.',
    ({ delays }) => delays.map(([quantile, late]): Sample => [[String(quantile)], late]),
    ['quantile'],
  ),
]

export interface HealthReadings {
  readonly healthy: boolean
  readonly sourceOk: boolean
  readonly version: string
}

/** At the end of a scrape. */
export const healthTable: Table<HealthReadings> = [
  gauge(
    'usher_healthy',
    '1 while the wanted state is applied, 0 when it could not be for long; /status says why.',
    ({ healthy }) => Number(healthy),
  ),
  gauge(
    'usher_source_ok',
    '1 while the newest state of the source could be read, 0 while the last good one stands; /status says why.',
    ({ sourceOk }) => Number(sourceOk),
  ),
  gauge(
    'usher_build_info',
    'Always 1; the label is the version of Usher.',
    ({ version }) => [[[version], 1]],
    ['version'],
  ),
]
