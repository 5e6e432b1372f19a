import { readdir } from 'node:fs/promises'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { Counter, Gauge } from 'prom-client'
import type { Registry } from 'prom-client'

/** Milliseconds between two looks at the event loop; part of each measured value. */
const delayResolutionMs = 100

/** What Prometheus' client libraries call these, so that usual dashboards find them. */
const registerUsage = (registry: Registry): void => {
  const registers = [registry]
  const gauge = (name: string, help: string, read: () => number): void => {
    const metric: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: () => metric.set(read()),
    })
  }
  const startedAt = Date.now() / 1000 - process.uptime()
  const cpu: Counter = new Counter({
    name: 'process_cpu_seconds_total',
    help: 'CPU time the process has used, in user and system mode together.',
    registers,
    collect: () => {
      const { user, system } = process.cpuUsage()
      cpu.reset()
      cpu.inc((user + system) / 1e6)
    },
  })
  gauge(
    'process_start_time_seconds',
    'When the process started (Unix time).',
    () => startedAt,
  )
  gauge('process_resident_memory_bytes', 'Memory of the process that is in RAM.', () =>
    process.memoryUsage.rss(),
  )
  gauge(
    'nodejs_heap_size_total_bytes',
    'Memory V8 has reserved for JavaScript objects.',
    () => process.memoryUsage().heapTotal,
  )
  gauge(
    'nodejs_heap_size_used_bytes',
    'Memory JavaScript objects use.',
    () => process.memoryUsage().heapUsed,
  )
  gauge(
    'nodejs_external_memory_bytes',
    'Memory of buffers outside the JavaScript heap.',
    () => process.memoryUsage().external,
  )
}

/** Read without blocking: a busy proxy has thousands of entries in /proc/self/fd. */
const registerOpenFds = (registry: Registry): void => {
  const metric: Gauge = new Gauge({
    name: 'process_open_fds',
    help: 'File descriptors the whole process has open.',
    registers: [registry],
    // One of them is the directory being read.
    collect: async () => metric.set((await readdir('/proc/self/fd')).length - 1),
  })
}

const registerEventLoop = (registry: Registry): (() => void) => {
  let before = performance.eventLoopUtilization()
  const utilization: Gauge = new Gauge({
    name: 'usher_event_loop_utilization',
    help: 'Share of the time since the last scrape in which the event loop was busy, 0 to 1.',
    registers: [registry],
    collect: () => {
      const now = performance.eventLoopUtilization()
      utilization.set(performance.eventLoopUtilization(now, before).utilization)
      before = now
    },
  })
  const histogram = monitorEventLoopDelay({ resolution: delayResolutionMs })
  histogram.enable()
  const delay: Gauge<'quantile'> = new Gauge({
    name: 'usher_event_loop_delay_seconds',
    help: 'How late the event loop was since the last scrape: what it adds to the latency of connections. Quantile 1 is the worst.',
    labelNames: ['quantile'],
    registers: [registry],
    collect: () => {
      for (const quantile of [0.5, 0.99, 1]) {
        // Each value holds the interval between two looks too.
        const late = histogram.percentile(quantile * 100) / 1e9 - delayResolutionMs / 1000
        delay.set({ quantile: String(quantile) }, Math.max(0, late))
      }
      histogram.reset()
    },
  })
  return () => {
    histogram.disable()
  }
}

/**
 * Metrics of the process itself. Own code instead of prom-client's default set, which
 * reads /proc/self/fd synchronously and lists all handles: 12 ms of a stopped event
 * loop at 8000 sockets. The function returned ends the watch on the event loop.
 */
export const registerProcessMetrics = (registry: Registry): (() => void) => {
  registerUsage(registry)
  if (process.platform === 'linux') registerOpenFds(registry)
  return registerEventLoop(registry)
}
