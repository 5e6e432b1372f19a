import { Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { RelayStats } from '../relay/relay.ts'
import { writeFamilies } from './exposition.ts'
import type { OwnFamily } from './exposition.ts'
import { registerProcessMetrics } from './process-metrics.ts'
import { relayFamilies } from './relay-families.ts'
import { relayTotals } from './relay-totals.ts'

export interface MetricsOptions {
  /** Gets the metrics of the process; what else it holds is scraped too. */
  readonly registry: Registry
  /** Undefined while there is no relay: then there are no metrics of one. */
  readonly stats: () => RelayStats | Promise<RelayStats | undefined>
  readonly healthy: () => boolean
  /** Whether the source's newest state could be read. */
  readonly sourceOk: () => boolean
  readonly version: string
  /** What other parts tell, written after the relay's. */
  readonly more?: () => readonly OwnFamily[]
}

export interface Metrics {
  readonly contentType: string
  /** The text of all metrics now, in pages. Scrapes at the same time share one. */
  scrape(): Promise<readonly Buffer[]>
  close(): void
}

/**
 * Prometheus metrics. The data path bumps plain numbers; they are read here, once per
 * scrape. The relay's metrics, which grow with the number of ServicePorts, are written
 * in pages beside the registry: prom-client writes 10 000 ServicePorts in one go, and
 * no connection moves for 350 ms. The registry holds everything of fixed size.
 */
export const createMetrics = (options: MetricsOptions): Metrics => {
  const { registry, stats, healthy, sourceOk, version } = options
  const registers = [registry]
  const endProcessMetrics = registerProcessMetrics(registry)
  const health: Gauge = new Gauge({
    name: 'usher_healthy',
    help: '1 while the wanted state is applied, 0 when it could not be for long; /status says why.',
    registers,
    collect: () => health.set(healthy() ? 1 : 0),
  })
  const source: Gauge = new Gauge({
    name: 'usher_source_ok',
    help: '1 while the newest state of the source could be read, 0 while the last good one stands; /status says why.',
    registers,
    collect: () => source.set(sourceOk() ? 1 : 0),
  })
  const build = new Gauge({
    name: 'usher_build_info',
    help: 'Always 1; the label is the version of Usher.',
    labelNames: ['version'],
    registers,
  })
  build.set({ version }, 1)

  const read = async (): Promise<readonly Buffer[]> => {
    const now = await stats()
    const relay = now ? await writeFamilies(relayFamilies, await relayTotals(now)) : []
    const others = await writeFamilies(options.more?.() ?? [], undefined)
    return [...relay, ...others, Buffer.from(await registry.metrics())]
  }
  let running: Promise<readonly Buffer[]> | undefined
  const scrape = (): Promise<readonly Buffer[]> =>
    (running ??= read().finally(() => (running = undefined)))
  return { contentType: registry.contentType, scrape, close: endProcessMetrics }
}
