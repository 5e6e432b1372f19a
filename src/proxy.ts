import { Registry as MetricsRegistry } from 'prom-client'
import type { Capture } from './capture/capture.ts'
import { listenCapture } from './capture/listen.ts'
import { isOwnAddress, LocalAddresses } from './capture/local-addresses.ts'
import { type PortRange, ProxyPorts } from './capture/proxy-ports.ts'
import { Reconciler } from './mode/reconciler.ts'
import { UserspaceMode } from './mode/userspace.ts'
import { Registry } from './model/registry.ts'
import { healthRoutes, metricsRoutes, type Routes } from './observe/admin-routes.ts'
import { startAdminServer, type AdminServer } from './observe/admin-server.ts'
import { ConnectionLog } from './observe/connection-log.ts'
import { Health } from './observe/health.ts'
import type { Log } from './observe/log.ts'
import { createMetrics } from './observe/metrics.ts'
import { PlacementLog, ProblemLog } from './observe/state-log.ts'
import { buildStatusDocument } from './observe/status-document.ts'
import type { StatusDocument } from './observe/status.ts'
import { openFileLimit } from './relay/fd-limit.ts'
import { PortableRelay } from './relay/portable/portable-relay.ts'
import type { Bind, DrainResult, RelayLimits } from './relay/relay.ts'
import type { Source } from './source/source.ts'
import { type Clock, systemClock } from './util/clock.ts'

export interface ProxyOptions {
  readonly version: string
  /** See `ListenCaptureDeps`. */
  readonly capture: 'auto' | 'local' | 'none'
  readonly bindAddress: string
  readonly proxyPortRange: PortRange | undefined
  /** Undefined: no such server. */
  readonly metricsBindAddress: Bind | undefined
  readonly healthzBindAddress: Bind | undefined
  /** Milliseconds; see `SyncRunner`. */
  readonly syncPeriod: number
  readonly minSyncPeriod: number
  readonly limits: RelayLimits
}

export interface ProxyDeps {
  readonly source: Source
  readonly options: ProxyOptions
  readonly log: Log
  readonly clock?: Clock
  readonly random?: () => number
}

export interface RunningProxy {
  status(): StatusDocument
  /** `host:port` of the two servers; '' while there is none. */
  metricsAddress(): string
  healthzAddress(): string
  /** Reads the source again. */
  reload(): void
  /** Stops accepting, waits up to `ms` milliseconds, resets what is left. */
  drain(ms: number): Promise<DrainResult>
  /** Ends everything at once that `drain` has not ended. */
  close(): Promise<void>
}

/**
 * Puts the parts together and starts them: source -> registry -> snapshots -> runner ->
 * mode (capture + relay), with log, metrics, health and status beside them. Resolves when
 * the first state of the source has been applied; rejects when it can't be read.
 */
export const startProxy = async (deps: ProxyDeps): Promise<RunningProxy> => {
  const { source, options, log, clock = systemClock, random = Math.random } = deps
  const startedAt = Date.now()
  let draining = false

  const connectionLog = new ConnectionLog({ log, clock })
  const relay = new PortableRelay({
    clock,
    random,
    limits: options.limits,
    observer: connectionLog,
    openFileLimit: openFileLimit(),
  })
  const mode = new UserspaceMode(captureOf(options, clock, random), relay, isOwnAddress)
  const health = new Health({
    clock,
    syncPeriodMs: options.syncPeriod,
    binds: () => relay.stats().listeners.flatMap(({ binds }) => binds),
    sourceSynced: () => source.status().synced,
  })
  const reconciler = reconcilerOf(deps, mode, health, clock)
  const status = (): StatusDocument =>
    buildStatusDocument({
      version: options.version,
      startedAt,
      draining,
      snapshots: reconciler.snapshots(),
      placements: mode.placements,
      stats: relay.stats(),
      source: source.status(),
      problems: [...reconciler.allProblems(), ...mode.problems],
      health: health.report(),
    })
  const metrics = createMetrics({
    registry: new MetricsRegistry(),
    stats: () => relay.stats(),
    healthy: () => health.report().healthy,
    sourceOk: () => source.status().error === '',
    version: options.version,
  })
  const [metricsServer, healthServer] = await startServers(
    options,
    metricsRoutes(metrics, status),
    healthRoutes(
      () => health.report(),
      () => !draining,
    ),
    { log, clock },
  )

  const stop = async (): Promise<void> => {
    reconciler.close()
    await source.close()
  }
  const close = async (): Promise<void> => {
    await stop()
    await relay.drain(0)
    connectionLog.close()
    metrics.close()
    await Promise.all([metricsServer?.close(), healthServer?.close()])
  }
  try {
    await source.start(reconciler)
    await reconciler.firstSync
  } catch (error) {
    await close()
    throw error
  }
  return {
    status,
    metricsAddress: () => metricsServer?.address() ?? '',
    healthzAddress: () => healthServer?.address() ?? '',
    reload: () => source.reload(),
    drain: async ms => {
      draining = true
      await stop()
      return relay.drain(ms)
    },
    close,
  }
}

const reconcilerOf = (
  { log, options }: ProxyDeps,
  mode: UserspaceMode,
  health: Health,
  clock: Clock,
): Reconciler => {
  const placementLog = new PlacementLog(log)
  const problemLog = new ProblemLog(log)
  const loopLog = new ProblemLog(log)
  return new Reconciler({
    clock,
    registry: new Registry(),
    health,
    minMs: options.minSyncPeriod,
    maxMs: options.syncPeriod,
    problems: problems => problemLog.say(problems),
    failed: err =>
      log.error({ err }, 'the wanted state could not be applied; trying again'),
    sync: async snapshots => {
      await mode.sync(snapshots)
      loopLog.say(mode.problems)
      placementLog.say(mode.placements)
    },
  })
}

const captureOf = (
  { capture, bindAddress, proxyPortRange }: ProxyOptions,
  clock: Clock,
  random: () => number,
): Capture =>
  listenCapture({
    mode: capture,
    bindAddress,
    proxyPortRange,
    localAddresses: new LocalAddresses(clock),
    proxyPorts: new ProxyPorts(proxyPortRange, random),
  })

type Server = AdminServer | undefined

/** The metrics server and the health server, undefined where its address is `off`. */
const startServers = async (
  { metricsBindAddress, healthzBindAddress }: ProxyOptions,
  metrics: Routes,
  health: Routes,
  deps: { readonly log: Log; readonly clock: Clock },
): Promise<[metrics: Server, health: Server]> => {
  const start = async (
    name: string,
    flag: string,
    bind: Bind | undefined,
    routes: Routes,
  ): Promise<Server> => bind && startAdminServer({ name, flag, bind, routes, ...deps })
  return Promise.all([
    start('metrics', '--metrics-bind-address', metricsBindAddress, metrics),
    start('health', '--healthz-bind-address', healthzBindAddress, health),
  ])
}
