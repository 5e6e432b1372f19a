import type { OperatorOrders } from '../mode/operator-orders.ts'
import type { Reconciler } from '../mode/reconciler.ts'
import type { Registry } from '../model/registry.ts'
import type { Problem } from '../model/snapshot.ts'
import {
  checkTable,
  clusterTable,
  orderTable,
  probeTable,
  requestTable,
  sourceReadings,
  sourceTable,
  stateTable,
  syncTable,
  versionTable,
} from '../observe/metrics-table.ts'
import {
  healthRoutes,
  metricsRoutes,
  type Route,
  type Routes,
  statusRoute,
} from '../observe/admin-routes.ts'
import type { Health } from '../observe/health.ts'
import { bindMetrics } from '../observe/exposition.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import { RecentRates } from '../observe/page/recent-rates.ts'
import { pageRoutes, Viewers } from '../observe/page/viewers.ts'
import { ProbeCounts } from '../observe/probe-counts.ts'
import {
  type StatusInput,
  type StatusQuery,
  writeStatus,
} from '../observe/status-document.ts'
import { type ChecksOf, statesInTurn } from '../observe/port-view.ts'
import type { SyncMetrics } from '../observe/sync-metrics.ts'
import type { RelayStats } from '../relay/relay.ts'
import type { Source } from '../source/source.ts'
import type { ConnectTimePart } from './connect-time.ts'
import type { NodeParts, OpenConnections, Shared } from './options.ts'
import type { ServiceChecks } from './service-checks.ts'
import type { TakeOverAtStart } from './take-over.ts'
import type { Traffic } from './traffic.ts'

/** What the control side measures. */
interface ControlFigures {
  readonly reconciler: Pick<Reconciler, 'snapshots'>
  readonly health: Pick<Health, 'report'>
  readonly syncMetrics: SyncMetrics
  /** Everything that can't be honoured now. */
  problems(): readonly Problem[]
}

export interface AdminDeps extends Pick<Shared, 'options' | 'clock' | 'log'> {
  readonly source: Source
  readonly node: NodeParts
  readonly registry: Registry
  readonly traffic: Traffic
  readonly connectTime: ConnectTimePart
  readonly control: ControlFigures
  readonly orders: Pick<OperatorOrders, 'all'>
  readonly checks: Pick<ServiceChecks, 'healthOf'>
  readonly isDraining: () => boolean
  readonly takeOver: Pick<TakeOverAtStart, 'result'>
  readonly quit: (() => void) | undefined
}

export interface Admin {
  readonly routes: {
    readonly metrics: Routes
    readonly health: Routes
    /** For the control socket. */
    readonly status: Route
  }
  /** Asks the relay for its figures, which may be in another process. */
  status(): Promise<StatusInput>
  connections(): Promise<OpenConnections>
  close(): void
}

/** The answers of the two HTTP servers: status, metrics and health. */
export const createAdmin = (deps: AdminDeps): Admin => {
  const { node, control, registry, traffic, isDraining } = deps
  const { health } = control
  const checked = checksOf(deps)
  const startedAt = Date.now()
  // First, as it may take a while: the rest is then of one moment.
  const status = async (): Promise<StatusInput> =>
    statusWith((await relayStats(traffic)) ?? nothing)
  const statusWith = (stats: RelayStats): StatusInput => {
    return {
      version: deps.options.version,
      startedAt,
      draining: isDraining(),
      tookOver: deps.takeOver.result,
      snapshots: control.reconciler.snapshots(),
      mode: traffic.choice(),
      placements: traffic.mode.placements,
      stats,
      source: deps.source.status(),
      problems: control.problems(),
      orders: deps.orders.all(),
      checksOf: checked,
      health: health.report(),
      node: nodeStatus(node, registry),
      capture: traffic.dataPath()?.captureChoice(),
      relay: traffic.dataPath()?.relayChoice,
      connectTime: deps.connectTime.status(),
    }
  }
  const isEligible = (): boolean =>
    !isDraining() && ineligibleReason(node, registry) === ''
  const probes = new ProbeCounts()
  const metrics = metricsOf(deps, probes, statusWith)
  const { clock, log } = deps
  const recent = new RecentRates({ stats: () => relayStats(traffic), clock, log })
  // Of who can open the page.
  if (deps.options.metricsBindAddress !== undefined) void recent.run()
  const viewers = new Viewers({ status, recent, clock, log })
  /** Of one ServicePort, which may be open on a page, what the page was told last. */
  const pages = async (query: StatusQuery): Promise<readonly Buffer[]> =>
    writeStatus((query.service && viewers.latest) || (await status()), query)
  return {
    status,
    connections: async () => openConnections((await relayStats(traffic)) ?? nothing),
    close: () => {
      recent.close()
      metrics.close()
    },
    routes: {
      status: statusRoute(pages),
      metrics: new Map([
        ...pageRoutes({ viewers, status: () => statusWith(nothing) }),
        ...metricsRoutes(metrics, pages, {
          mode: () => traffic.mode.name,
          probes,
          ...(node.configuration && { config: node.configuration }),
          ...(deps.quit && { quit: deps.quit }),
        }),
      ]),
      health: healthRoutes(() => health.report(), isEligible, { probes }),
    },
  }
}

/** Those of routes are the source's, those of Services are made here. */
const checksOf =
  ({ source, checks }: AdminDeps): ChecksOf =>
  ({ name, namespace, serviceName, checks: effects }) => {
    if (source.healthOf !== undefined)
      return endpoint => source.healthOf?.(name, endpoint)
    if (effects === undefined) return undefined
    return endpoint => checks.healthOf(`${namespace}/${serviceName}`, endpoint)
  }

const nodeStatus = (node: NodeParts, registry: Registry): StatusInput['node'] => {
  const { nodeName } = node
  if (nodeName === '') return undefined
  const notEligible = ineligibleReason(node, registry)
  return { name: nodeName, zone: registry.lastKnownNode()?.zone ?? '', notEligible }
}

/** Why load balancers should not send to this node; '' when they may (KEP-3836). */
const ineligibleReason = ({ nodeProblem }: NodeParts, registry: Registry): string => {
  if (nodeProblem === undefined) return ''
  const node = registry.node()
  if (node === undefined) return `/healthz is 503: ${nodeProblem()}`
  return node.leaving ? '/healthz is 503: the Node is about to go' : ''
}

const metricsOf = (
  deps: AdminDeps,
  probes: ProbeCounts,
  statusWith: (stats: RelayStats) => StatusInput,
): Metrics => {
  const { source, registry, node, traffic, control } = deps
  const { version } = deps.options
  const { syncMetrics, reconciler, health } = control
  return createMetrics({
    stats: () => relayStats(traffic),
    health: () => ({
      healthy: health.report().healthy,
      sourceOk: source.status().error === '',
      version,
    }),
    more: async stats => [
      ...bindMetrics(syncTable, syncMetrics),
      ...bindMetrics(clusterTable, {
        pending: registry.pending(),
        changes: syncMetrics.changes,
        snapshots: reconciler.snapshots(),
      }),
      ...(node.requests ? bindMetrics(requestTable, node.requests()) : []),
      ...bindMetrics(versionTable, version),
      ...traffic.metrics(),
      ...(await deps.connectTime.metrics(reconciler.snapshots())),
      ...bindMetrics(orderTable, deps.orders.all()),
      ...bindMetrics(checkTable, {
        snapshots: reconciler.snapshots(),
        checksOf: checksOf(deps),
      }),
      ...bindMetrics(stateTable, await statesInTurn(statusWith(stats ?? nothing))),
      ...bindMetrics(probeTable, probes),
      ...bindMetrics(
        sourceTable,
        sourceReadings(source.status(), control.problems().length),
      ),
    ],
  })
}

/** Undefined in the kernel modes, which have no relay. */
const relayStats = async ({ dataPath }: Traffic): Promise<RelayStats | undefined> =>
  dataPath()?.relay.stats()

const openConnections = ({ listeners }: RelayStats): OpenConnections => {
  const all = [...listeners].map(({ counters }) => counters)
  return {
    open: all.reduce((sum, { active }) => sum + active, 0),
    accepted: all.reduce((sum, { accepted }) => sum + accepted, 0),
  }
}

const nothing: RelayStats = {
  listeners: [],
  fds: { used: 0, limit: 0 },
  acceptPaused: false,
}
