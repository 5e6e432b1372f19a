import { Counter, Gauge, Registry } from 'prom-client'
import type { RelayStats } from '../relay/relay.ts'
import { type BoundMetric, type Metric, samplesOf, writeMetrics } from './exposition.ts'
import {
  type HealthReadings,
  healthTable,
  processTable,
  ProcessWatch,
} from './process-metrics.ts'
import { relayMetrics } from './relay-metrics.ts'
import { relayTotals } from './joined-listeners.ts'

export interface MetricsOptions {
  /** Undefined while there is no relay: then there are no metrics of one. */
  readonly stats: () => RelayStats | Promise<RelayStats | undefined>
  readonly health: () => HealthReadings
  /** Metrics of other parts, written after the relay's; with what was read of it. */
  readonly more?: (
    stats: RelayStats | undefined,
  ) => readonly BoundMetric[] | Promise<readonly BoundMetric[]>
}

export interface Metrics {
  readonly contentType: string
  /** The text of all metrics now, in pages. Scrapes at the same time share one. */
  scrape(): Promise<readonly Buffer[]>
  close(): void
}

/**
 * Prometheus metrics. The data path bumps plain numbers; they are read here, once per
 * scrape. The table of metrics is metrics-table.ts. All that may grow is written in pages:
 * prom-client writes the relay's for 10 000 ServicePorts in one go, and no connection
 * moves for 350 ms. It has those of the process.
 */
export const createMetrics = ({ stats, health, more }: MetricsOptions): Metrics => {
  const watch = new ProcessWatch()
  const registry = new Registry()
  const showProcess = intoRegistry(registry, processTable)
  const showHealth = intoRegistry(registry, healthTable)
  const read = async (): Promise<readonly Buffer[]> => {
    const now = await stats()
    const relay = now ? await writeMetrics(relayMetrics, await relayTotals(now)) : []
    const others = await writeMetrics((await more?.(now)) ?? [], undefined)
    showProcess(await watch.read())
    showHealth(health())
    return [...relay, ...others, Buffer.from(await registry.metrics())]
  }
  let running: Promise<readonly Buffer[]> | undefined
  const scrape = (): Promise<readonly Buffer[]> =>
    (running ??= read().finally(() => (running = undefined)))
  return { contentType: registry.contentType, scrape, close: () => watch.close() }
}

/** Makes metrics for prom-client; gives what sets them. Counters and gauges only. */
const intoRegistry = <T>(
  registry: Registry,
  table: readonly Metric<T>[],
): ((from: T) => void) => {
  const setters = table.map(metric => {
    const { name, help, labels } = metric
    const config = { name, help, labelNames: labels, registers: [registry] }
    const shown = metric.type === 'counter' ? new Counter(config) : new Gauge(config)
    return (from: T): void => {
      shown.reset()
      for (const [values, value] of samplesOf(metric, from))
        if (typeof value === 'number') shown.labels(...values).inc(value)
    }
  })
  return from => setters.forEach(set => set(from))
}
