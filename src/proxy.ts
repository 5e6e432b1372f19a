import { Registry as MetricsRegistry } from 'prom-client'
import type { Capture } from './capture/capture.ts'
import { listenCapture } from './capture/listen.ts'
import {
  interfaceAddresses,
  isOwnAddress,
  LocalAddresses,
} from './capture/local-addresses.ts'
import { ProxyPorts } from './capture/proxy-ports.ts'
import { NodeClients } from './mode/node-clients.ts'
import { Reconciler } from './mode/reconciler.ts'
import { UserspaceMode } from './mode/userspace.ts'
import { Registry } from './model/registry.ts'
import { healthRoutes, metricsRoutes } from './observe/admin-routes.ts'
import { ChangeLog } from './observe/change-log.ts'
import { ConnectionLog } from './observe/connection-log.ts'
import { Health } from './observe/health.ts'
import { kubeFamilies } from './observe/kube-families.ts'
import { createMetrics } from './observe/metrics.ts'
import { ProbeCounts } from './observe/probe-counts.ts'
import { ServiceHealthServers } from './observe/service-health.ts'
import { stateFamilies } from './observe/state-families.ts'
import { PlacementLog, ProblemLog } from './observe/state-log.ts'
import {
  buildStatusDocument,
  type StatusInput,
  writeStatus,
} from './observe/status-document.ts'
import { SyncMetrics } from './observe/sync-metrics.ts'
import {
  noNode,
  type ProxyDeps,
  type ProxyOptions,
  type RunningProxy,
} from './proxy-options.ts'
import { startServers } from './proxy-servers.ts'
import { openFileLimit } from './relay/fd-limit.ts'
import { PortableRelay } from './relay/portable/portable-relay.ts'
import { type Clock, systemClock } from './util/clock.ts'
import { ipFamilies } from './util/ip.ts'

/**
 * Puts the parts together and starts them: source -> registry -> snapshots -> runner ->
 * mode (capture + relay), with log, metrics, health and status beside them. Resolves when
 * the servers listen; the first state of the source comes with `ready`.
 */
export const startProxy = async (deps: ProxyDeps): Promise<RunningProxy> => {
  const { source, options, log, node = noNode } = deps
  const { clock = systemClock, random = Math.random } = deps
  const { nodeName, emit = () => {} } = node
  const startedAt = Date.now()
  let draining = false

  const registry = new Registry({ nodeName, startedAt })
  const nodeClients = new NodeClients({
    clock,
    ownAddresses: () => ipFamilies.flatMap(family => interfaceAddresses(family)),
    podCidrs: () => [
      ...node.clusterCidrs,
      ...(node.nodeCidrs ? (registry.node()?.podCIDRs ?? []) : []),
    ],
  })
  const connectionLog = new ConnectionLog({ log, clock })
  const relay = new PortableRelay({
    clock,
    random,
    limits: options.limits,
    observer: connectionLog,
    openFileLimit: openFileLimit(),
    isFromNode: address => nodeClients.has(address),
  })
  const mode = new UserspaceMode(captureOf(options, clock, random), relay, isOwnAddress)
  const health = new Health({
    clock,
    syncPeriodMs: options.syncPeriod,
    binds: () => connectionLog.failingBinds.states(),
    sourceSynced: () => source.status().synced,
  })
  const healthChecks = new ServiceHealthServers({
    clock,
    log,
    proxyHealthy: () => health.report().healthy,
    failed: ({ namespace, serviceName, message }) =>
      emit({
        type: 'Warning',
        reason: 'FailedToStartServiceHealthcheck',
        action: 'Listen',
        message,
        regarding: { kind: 'Service', namespace, name: serviceName },
      }),
  })
  const syncMetrics = new SyncMetrics()
  const changeLog = new ChangeLog(log, clock)
  const placementLog = new PlacementLog(log, (servicePort, bind) =>
    connectionLog.failingBinds.has(servicePort, bind),
  )
  const problemLog = new ProblemLog(log)
  const modeProblemLog = new ProblemLog(log)
  const modeProblems = () => [...mode.problems, ...healthChecks.problems]
  const reconciler = new Reconciler({
    clock,
    registry,
    observers: [health, syncMetrics],
    minMs: options.minSyncPeriod,
    maxMs: options.syncPeriod,
    problems: problems => problemLog.say(problems),
    failed: err =>
      log.error({ err }, 'the wanted state could not be applied; trying again'),
    taken: changes => {
      syncMetrics.taken(changes)
      changeLog.taken(changes)
    },
    sync: async snapshots => {
      await mode.sync(snapshots)
      await healthChecks.sync(snapshots)
      modeProblemLog.say(modeProblems())
      placementLog.say(mode.placements)
    },
  })

  const allProblems = () => [...reconciler.allProblems(), ...modeProblems()]
  const statusInput = (): StatusInput => ({
    version: options.version,
    startedAt,
    draining,
    snapshots: reconciler.snapshots(),
    placements: mode.placements,
    stats: relay.stats(),
    source: source.status(),
    problems: allProblems(),
    health: health.report(),
    node:
      nodeName === '' ? undefined : { name: nodeName, zone: registry.node()?.zone ?? '' },
  })
  const probes = new ProbeCounts()
  const metrics = createMetrics({
    registry: new MetricsRegistry(),
    stats: () => relay.stats(),
    healthy: () => health.report().healthy,
    sourceOk: () => source.status().error === '',
    version: options.version,
    more: [
      ...syncMetrics.families,
      ...kubeFamilies({
        pending: () => registry.pending(),
        changes: () => syncMetrics.changes,
        snapshots: () => reconciler.snapshots(),
        requests: node.requests,
        version: options.version,
      }),
      ...probes.families,
      ...stateFamilies({
        source: () => source.status(),
        problems: () => allProblems().length,
      }),
    ],
  })
  const isEligible = (): boolean =>
    !draining && (!node.needsNode || registry.node()?.leaving === false)
  const tellNode = (type: 'Normal' | 'Warning', reason: string, message: string) =>
    emit({
      type,
      reason,
      action: 'StartKubeProxy',
      message,
      regarding: { kind: 'Node', name: nodeName, namespace: '' },
    })
  const servers = await startServers(
    options,
    {
      metrics: metricsRoutes(metrics, () => writeStatus(statusInput()), {
        probes,
        ...(node.configuration && { config: node.configuration }),
      }),
      health: healthRoutes(() => health.report(), isEligible, { probes }),
    },
    {
      log,
      clock,
      failed: (reason, message) => tellNode('Warning', reason, message),
    },
  )

  const stop = async (): Promise<void> => {
    reconciler.close()
    await Promise.all([source.close(), node.close?.()])
  }
  const close = async (): Promise<void> => {
    await stop()
    await relay.drain(0)
    await healthChecks.close()
    connectionLog.close()
    changeLog.close()
    metrics.close()
    await Promise.all([servers.metrics?.close(), servers.health?.close()])
  }
  const start = async (): Promise<void> => {
    try {
      await source.start(reconciler)
      // A source that was closed before it had anything never will have.
      if (source.status().synced) await reconciler.firstSync
    } catch (error) {
      await close()
      throw error
    }
  }
  const ready = start()
  // Whoever waits for it hears of a failure; nobody has to.
  ready.catch(() => {})
  tellNode('Normal', 'Starting', '')
  return {
    ready,
    status: () => buildStatusDocument(statusInput()),
    summary: () => ({
      servicePorts: reconciler
        .snapshots()
        .reduce((sum, { servicePorts }) => sum + servicePorts.size, 0),
      problems: allProblems().length,
    }),
    metricsAddress: () => servers.metrics?.address() ?? '',
    healthzAddress: () => servers.health?.address() ?? '',
    reload: () => source.reload(),
    drain: async ms => {
      draining = true
      await stop()
      return relay.drain(ms)
    },
    close,
  }
}

const captureOf = (
  { capture, captureAdvice, bindAddress, proxyPortRange }: ProxyOptions,
  clock: Clock,
  random: () => number,
): Capture =>
  listenCapture({
    mode: capture,
    bindAddress,
    proxyPortRange,
    localAddresses: new LocalAddresses(clock),
    proxyPorts: new ProxyPorts(proxyPortRange, random),
    ...(captureAdvice !== undefined && { advice: captureAdvice }),
  })
