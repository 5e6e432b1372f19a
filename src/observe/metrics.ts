import type { RelayStats } from '../relay/relay.ts'
import { type BoundMetric, writeMetrics } from './exposition.ts'
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
  /** Metrics of other parts, written after the relay's. */
  readonly more?: () => readonly BoundMetric[] | Promise<readonly BoundMetric[]>
}

export interface Metrics {
  readonly contentType: string
  /** The text of all metrics now, in pages. Scrapes at the same time share one. */
  scrape(): Promise<readonly Buffer[]>
  close(): void
}

/**
 * Prometheus metrics. The data path bumps plain numbers; they are read here, once per
 * scrape. The table of metrics is metrics-table.ts.
 */
export const createMetrics = ({ stats, health, more }: MetricsOptions): Metrics => {
  const watch = new ProcessWatch()
  const read = async (): Promise<readonly Buffer[]> => {
    const now = await stats()
    const relay = now ? await writeMetrics(relayMetrics, await relayTotals(now)) : []
    const others = await writeMetrics((await more?.()) ?? [], undefined)
    const ofProcess = await writeMetrics(processTable, await watch.read())
    return [
      ...relay,
      ...others,
      ...ofProcess,
      ...(await writeMetrics(healthTable, health())),
    ]
  }
  let running: Promise<readonly Buffer[]> | undefined
  const scrape = (): Promise<readonly Buffer[]> =>
    (running ??= read().finally(() => (running = undefined)))
  return { contentType, scrape, close: () => watch.close() }
}

/** Of Prometheus' text format 0.0.4. */
const contentType = 'text/plain; version=0.0.4; charset=utf-8'
