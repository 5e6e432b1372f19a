import { Registry as MetricsRegistry } from 'prom-client'
import type { Choice } from '../capture/choose-capture.ts'
import type { ModeChoice } from '../mode/choose-mode.ts'
import type { Reconciler } from '../mode/reconciler.ts'
import type { Registry } from '../model/registry.ts'
import type { Problem } from '../model/snapshot.ts'
import { healthRoutes, metricsRoutes, type Routes } from '../observe/admin-routes.ts'
import type { Health } from '../observe/health.ts'
import { bindMetrics } from '../observe/exposition.ts'
import {
  clusterTable,
  probeTable,
  requestTable,
  sourceReadings,
  sourceTable,
  syncTable,
  versionTable,
} from '../observe/metrics-table.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import { ProbeCounts } from '../observe/probe-counts.ts'
import type { ChoiceStatus, RelayStatus } from '../observe/status.ts'
import { type StatusInput, writeStatus } from '../observe/status-document.ts'
import type { SyncMetrics } from '../observe/sync-metrics.ts'
import type { ChosenRelay, OwnProcess } from '../relay/make-relay.ts'
import { privilegesText } from '../relay/privileges.ts'
import type { RelayStats, Relay } from '../relay/relay.ts'
import type { Source } from '../source/source.ts'
import type { NodeParts } from './options.ts'
import type { Traffic } from './traffic.ts'

/** What the reconciler's side tells. */
interface ControlFigures {
  readonly reconciler: Pick<Reconciler, 'snapshots'>
  readonly health: Pick<Health, 'report'>
  readonly syncMetrics: SyncMetrics
  /** Everything that can't be honoured now. */
  problems(): readonly Problem[]
}

export interface AdminDeps {
  readonly version: string
  readonly source: Source
  readonly node: NodeParts
  readonly registry: Registry
  readonly traffic: Traffic
  readonly control: ControlFigures
  readonly isDraining: () => boolean
}

export interface Admin {
  readonly metrics: Metrics
  readonly routes: { readonly metrics: Routes; readonly health: Routes }
  /** With figures that may be as old as the last look at them; see `RelayFigures`. */
  statusInput(): StatusInput
  /** Looks at them. */
  look(): Promise<void>
}

/** What people, probes and Prometheus are told. */
export const createAdmin = (deps: AdminDeps): Admin => {
  const { node, control, registry, traffic, isDraining } = deps
  const { health } = control
  const startedAt = Date.now()
  const figures = new RelayFigures(() => traffic.dataPath()?.relay)
  const inputWith = (stats: RelayStats): StatusInput => ({
    version: deps.version,
    startedAt,
    draining: isDraining(),
    snapshots: control.reconciler.snapshots(),
    mode: modeStatus(traffic.choice()),
    placements: traffic.mode.placements,
    stats,
    source: deps.source.status(),
    problems: control.problems(),
    health: health.report(),
    node: nodeStatus(node, registry),
    ...dataPathStatus(traffic),
  })
  const isEligible = (): boolean => !isDraining() && whyNotEligible(node, registry) === ''
  const probes = new ProbeCounts()
  const metrics = metricsOf(deps, figures, probes)
  return {
    metrics,
    statusInput: () => inputWith(figures.atOnce()),
    look: async () => void (await figures.ask()),
    routes: {
      metrics: metricsRoutes(
        metrics,
        async () => writeStatus(inputWith(await figures.ask())),
        {
          mode: () => traffic.mode.name,
          probes,
          ...(node.configuration && { config: node.configuration }),
        },
      ),
      health: healthRoutes(() => health.report(), isEligible, { probes }),
    },
  }
}

const modeStatus = ({
  name,
  by,
  detail,
  passedOver,
}: ModeChoice): NonNullable<StatusInput['mode']> => ({
  name,
  askedBy: by,
  detail,
  passedOver,
})

/** Nothing in the kernel modes. */
const dataPathStatus = ({
  dataPath,
}: Traffic): Pick<StatusInput, 'capture' | 'relay'> => {
  const path = dataPath()
  if (path === undefined) return {}
  const { captureChoice, relayChoice } = path
  return { capture: captureStatus(captureChoice), relay: relayStatus(relayChoice) }
}

const captureStatus = ({ name, detail, passedOver }: Choice): ChoiceStatus => ({
  name,
  detail,
  passedOver: passedOver.map(one => ({ name: one.name, detail: one.detail })),
})

const relayStatus = ({
  name,
  detail,
  workers,
  ownProcess,
  passedOver,
}: ChosenRelay): RelayStatus => ({
  name,
  detail,
  workers,
  ownProcess: ownProcess ? processStatus(ownProcess) : null,
  passedOver,
})

const processStatus = ({
  privileges,
  excess,
}: OwnProcess): NonNullable<RelayStatus['ownProcess']> => ({
  privileges: privileges === undefined ? '' : privilegesText(privileges),
  excess,
})

const nodeStatus = (node: NodeParts, registry: Registry): StatusInput['node'] => {
  const { nodeName } = node
  if (nodeName === '') return undefined
  const notEligible = whyNotEligible(node, registry)
  return { name: nodeName, zone: registry.node()?.zone ?? '', notEligible }
}

/** Why load balancers should not send to this node; '' when they may (KEP-3836). */
const whyNotEligible = ({ whyNoNode }: NodeParts, registry: Registry): string => {
  if (whyNoNode === undefined) return ''
  const node = registry.node()
  if (node === undefined) return `/healthz is 503: ${whyNoNode()}`
  return node.leaving ? '/healthz is 503: the Node is about to go' : ''
}

const metricsOf = (
  deps: AdminDeps,
  figures: RelayFigures,
  probes: ProbeCounts,
): Metrics => {
  const { version, source, registry, node, traffic, control } = deps
  const { syncMetrics, reconciler, health } = control
  return createMetrics({
    registry: new MetricsRegistry(),
    stats: () => figures.askRelay(),
    healthy: () => health.report().healthy,
    sourceOk: () => source.status().error === '',
    version,
    more: () => [
      ...bindMetrics(syncTable, syncMetrics),
      ...bindMetrics(clusterTable, {
        pending: registry.pending(),
        changes: syncMetrics.changes,
        snapshots: reconciler.snapshots(),
      }),
      ...(node.requests ? bindMetrics(requestTable, node.requests()) : []),
      ...bindMetrics(versionTable, version),
      ...traffic.metrics(),
      ...bindMetrics(probeTable, probes),
      ...bindMetrics(
        sourceTable,
        sourceReadings(source.status(), control.problems().length),
      ),
    ],
  })
}

const nothing: RelayStats = {
  listeners: [],
  fds: { used: 0, limit: 0 },
  acceptPaused: false,
}

/**
 * The figures of a relay that may have to ask another process for them, and that may not be
 * there: the kernel modes have none.
 */
export class RelayFigures {
  readonly #relay: () => Pick<Relay, 'stats'> | undefined
  #known = nothing

  constructor(relay: () => Pick<Relay, 'stats'> | undefined) {
    this.#relay = relay
  }

  async ask(): Promise<RelayStats> {
    this.#known = (await this.askRelay()) ?? nothing
    return this.#known
  }

  /** Undefined where there is no relay. */
  async askRelay(): Promise<RelayStats | undefined> {
    return this.#relay()?.stats()
  }

  /** At once; those of a relay in another process are as old as the last `ask`. */
  atOnce(): RelayStats {
    const stats = this.#relay()?.stats() ?? nothing
    if (!(stats instanceof Promise)) return stats
    // It is asked for the next time; whoever wants to know of a failure uses `ask`.
    stats.then(
      fresh => (this.#known = fresh),
      () => {},
    )
    return this.#known
  }
}
