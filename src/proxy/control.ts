import { ToolError } from '../kernel/run-tool.ts'
import type { Periods } from '../mode/periods.ts'
import { Reconciler } from '../mode/reconciler.ts'
import type { Registry } from '../model/registry.ts'
import type { Problem, Snapshot } from '../model/snapshot.ts'
import { ChangeLog } from '../observe/change-log.ts'
import { Health } from '../observe/health.ts'
import type { Log, LogFields } from '../observe/log.ts'
import {
  type ServiceHealthFailure,
  ServiceHealthServers,
} from '../observe/service-health.ts'
import { PlacementLog, ProblemLog } from '../observe/state-log.ts'
import { SyncMetrics } from '../observe/sync-metrics.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import type { ClusterEvent } from '../source/kubernetes/event-body.ts'
import type { Clock } from '../util/clock.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Traffic } from './traffic.ts'

export interface ControlDeps {
  readonly periods: Periods
  readonly clock: Clock
  readonly log: Log
  readonly registry: Registry
  readonly traffic: Traffic
  /** Where healthCheckNodePorts are; undefined: on all addresses. */
  readonly healthCheckAddresses: (family: IpFamily) => readonly string[] | undefined
  readonly sourceSynced: () => boolean
  readonly emit: (event: ClusterEvent) => void
}

export interface Control {
  readonly reconciler: Reconciler
  readonly health: Health
  readonly syncMetrics: SyncMetrics
  /** Everything that can't be honoured now. */
  problems(): readonly Problem[]
  close(): Promise<void>
}

/** What keeps what is served equal to what the source wants, and says how that goes. */
export const createControl = (deps: ControlDeps): Control => {
  const { periods, clock, log, registry, traffic, sourceSynced, emit } = deps
  const { mode } = traffic
  const health = new Health({
    clock,
    syncPeriodMs: periods.syncPeriod,
    binds: () => traffic.dataPath()?.connectionLog.failingBinds.states() ?? [],
    sourceSynced,
    hungWorkers: () => traffic.dataPath()?.connectionLog.hungWorkers ?? [],
  })
  const healthChecks = new ServiceHealthServers({
    clock,
    log,
    // Not `healthy`: one port that can't be bound is no reason to lose all Services.
    proxyHealthy: () => health.report().live,
    addresses: deps.healthCheckAddresses,
    mostServers: Math.floor(openFileLimit() / 16),
    failed: failure => emit(healthCheckEvent(failure)),
  })
  const modeProblems = () => [...mode.problems, ...healthChecks.problems]
  const sayMode = modeSayer(log, traffic, modeProblems)
  const syncMetrics = new SyncMetrics()
  const changeLog = new ChangeLog(log, clock)
  const problemLog = new ProblemLog(log)
  const reconciler = new Reconciler({
    clock,
    registry,
    observers: [health, syncMetrics],
    minMs: periods.minSyncPeriod,
    maxMs: periods.syncPeriod,
    problems: problems => problemLog.say(problems),
    failed: error =>
      log.error(reasonOf(error), 'the wanted state could not be applied; trying again'),
    taken: changes => {
      syncMetrics.taken(changes)
      changeLog.taken(changes)
    },
    sync: async (snapshots: readonly Snapshot[]) => {
      await mode.sync(snapshots)
      await healthChecks.sync(snapshots)
      sayMode()
    },
  })
  return {
    reconciler,
    health,
    syncMetrics,
    problems: () => [...reconciler.allProblems(), ...modeProblems()],
    close: async () => {
      reconciler.close()
      await healthChecks.close()
      changeLog.close()
    },
  }
}

/** What a tool of the system's said needs no stack. */
const reasonOf = (error: unknown): LogFields =>
  error instanceof ToolError ? { why: error.message } : { err: error }

/** After a sync: where VIPs are now, and what of them could not be had. */
const modeSayer = (
  log: Log,
  { mode, dataPath }: Traffic,
  problems: () => readonly Problem[],
): (() => void) => {
  const problemLog = new ProblemLog(log)
  const placementLog = new PlacementLog(
    log,
    (servicePort, bind) =>
      dataPath()?.connectionLog.failingBinds.has(servicePort, bind) ?? false,
  )
  return () => {
    problemLog.say(problems())
    placementLog.say(mode.placements)
  }
}

const healthCheckEvent = (failure: ServiceHealthFailure): ClusterEvent => ({
  type: 'Warning',
  reason: 'FailedToStartServiceHealthcheck',
  action: 'Listen',
  message: failure.message,
  regarding: {
    kind: 'Service',
    namespace: failure.namespace,
    name: failure.serviceName,
  },
})
