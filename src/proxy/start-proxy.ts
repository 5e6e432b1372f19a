import { ownAddresses } from '../capture/local-addresses.ts'
import { ToolError } from '../kernel/run-tool.ts'
import { nodeClientsOf } from '../mode/node-clients.ts'
import { OperatorOrders } from '../mode/operator-orders.ts'
import type { ModeName } from '../mode/mode.ts'
import { Reconciler } from '../mode/reconciler.ts'
import { Registry } from '../model/registry.ts'
import type { Problem } from '../model/snapshot.ts'
import {
  AnnotationEvents,
  ChangeLog,
  PlacementLog,
  ProblemLog,
} from '../observe/state-log.ts'
import { Health } from '../observe/health.ts'
import type { ControlServer } from '../observe/control-server.ts'
import type { LogFields } from '../observe/log.ts'
import {
  type ServiceHealthFailure,
  ServiceHealthServers,
} from '../observe/service-health.ts'
import { buildStatusDocument } from '../observe/status-document.ts'
import { SyncMetrics } from '../observe/sync-metrics.ts'
import { openFileLimit } from '../relay/fd-limit.ts'
import type { BindState } from '../relay/relay.ts'
import type { ClusterEvent } from '../source/kubernetes/event-recorder.ts'
import type { Source } from '../source/source.ts'
import { systemClock, within } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'
import { messageOf } from '../util/usher-error.ts'
import { createAdmin } from './admin.ts'
import { askedRoutes, startControl } from './control.ts'
import {
  clusterFacts,
  healthCheckAddresses,
  hostHas,
  nodePortProblems,
  onLoopback,
} from './cluster-facts.ts'
import { type ConnectTimePart, createConnectTime } from './connect-time.ts'
import { noNode, type ProxyDeps, type RunningProxy, type Shared } from './options.ts'
import { type ProxyServers, startServers } from './servers.ts'
import { ServiceChecks } from './service-checks.ts'
import { TakeOverAtStart } from './take-over.ts'
import { logEnded } from './control/endpoint-orders.ts'
import { createTraffic, type Traffic } from './traffic.ts'

/** Milliseconds for what is under way when this process ends. */
const patienceMs = 3000
const longestReloadMs = 10_000

/**
 * Puts the parts together and starts them: source -> registry -> snapshots -> reconciler ->
 * mode (capture + relay, or the kernel's rules), with log, metrics, health and status
 * beside them. Resolves when the servers listen; the first state of the source comes with
 * `ready`. Rejects, with nothing begun, when that is known not to be usable.
 */
export const startProxy = async (deps: ProxyDeps): Promise<RunningProxy> => {
  const { source, options, log, node = noNode } = deps
  const { clock = systemClock, random = Math.random } = deps
  await source.prepare?.()
  let draining = false

  const checks = new ServiceChecks({
    clock,
    log,
    changed: service => {
      registry.hasTurned(service)
      control.reconciler.resync()
    },
  })
  const registry = new Registry({
    nodeName: node.nodeName,
    externalIPs: options.externalIps ?? true,
    startedAt: Date.now(),
    judge: checks.judge,
    ...(source.dials && { dials: () => source.dials?.() ?? [] }),
    host: { servers: () => listening?.bound ?? [], has: one => hostHas(one, source) },
  })
  const emit = (event: ClusterEvent): void => node.emit?.(withUid(event, registry))
  const facts = clusterFacts(node, registry, options, source)
  const nodeEvent = (type: ClusterEvent['type'], reason: string, message: string) =>
    emit({
      type,
      reason,
      action: 'StartKubeProxy',
      message,
      regarding: { kind: 'Node', name: node.nodeName, namespace: '' },
    })
  const failed = (reason: string, message: string) =>
    nodeEvent('Warning', reason, message)
  const resync = (): void => control.reconciler.resync()
  const orders = new OperatorOrders({
    clock,
    ended: (ended, why) => {
      logEnded(log, ended, why)
      resync()
    },
  })
  const shared: Shared = {
    options,
    clock,
    random,
    log,
    facts,
    orders,
    resync,
    allFailed: servicePort => source.allFailed?.(servicePort),
  }
  const traffic = await createTraffic({
    ...shared,
    event: failed,
  })
  const connectTime = await createConnectTime({
    ...shared,
    notUsable: message => failed('ConnectTimeNotUsable', message),
  })
  let socket: ControlServer | undefined
  let listening: ProxyServers | undefined
  const serverProblems = () => [socket, listening].flatMap(one => one?.problems() ?? [])
  const takeOver = new TakeOverAtStart(deps.predecessor, shared)
  const parts = {
    registry,
    checks,
    traffic,
    connectTime,
    source,
    emit,
    serverProblems,
    takeOver,
  }
  const control: Control = createControl({ ...shared, ...parts })
  const { reconciler } = control
  const isDraining = () => draining
  const admin = createAdmin({
    ...shared,
    ...parts,
    node,
    control,
    isDraining,
    quit: deps.quit,
  })
  const logNoSocket = (error: unknown): undefined => {
    log.error({ why: messageOf(error) }, 'no control socket until the next start')
  }
  const startAll = async (): Promise<void> => {
    const { status, health } = admin.routes
    const around = {
      place: () => ({
        nodeName: node.nodeName,
        zone: registry.lastKnownNode()?.zone ?? '',
      }),
      nodeClients: () => {
        const isRelayed = traffic.mode.name === 'userspace'
        const pods = isRelayed ? facts.nodePodCidrs() : facts.podCidrs()
        return nodeClientsOf(ownAddresses(), pods)
      },
      status: () => admin.status(),
      connectTime,
    }
    const { replaced = () => {}, watchdogMs } = deps
    const controlled = { ...shared, reconciler, traffic, around, replaced, watchdogMs }
    const starting = startControl({ ...controlled, status })
    // What was taken over must not be lost for want of an address of its own.
    socket = await (takeOver.isAwaited ? starting.catch(logNoSocket) : starting)
    const metrics = new Map([...admin.routes.metrics, ...askedRoutes(controlled)])
    const bindHardFail = options.bindHardFail === true && !takeOver.isAwaited
    const listens = { ...options, bindHardFail }
    listening = await startServers(listens, { metrics, health }, { log, clock, failed })
  }
  if (!takeOver.isAwaited)
    await startAll().catch(async (error: unknown) => {
      admin.close()
      await Promise.all([
        socket?.close(),
        control.close(),
        node.close?.(),
        traffic.close(),
        connectTime.close(traffic.mode.name),
      ])
      throw error
    })

  const leaveAddresses = async (): Promise<void> => {
    await Promise.all([listening?.metrics?.close(), listening?.health?.close()])
    await control.healthChecks.close()
    // Last: the successor looks for it.
    await socket?.close()
  }

  const stop = async (): Promise<void> => {
    reconciler.close()
    await Promise.all([source.close(), checks.close()])
  }
  /** What the one before goes on with is not this one's to take out. */
  const leaveToPredecessor = async (): Promise<void> => {
    if (takeOver.isUnfinished) await within(clock, patienceMs, traffic.mode.lend())
  }
  const close = async (): Promise<void> => {
    await Promise.all([stop(), node.close?.()])
    await leaveToPredecessor()
    await connectTime.close(traffic.mode.name).catch((err: unknown) => {
      log.error({ err }, 'connect-time steering could not be removed; run usher cleanup')
    })
    await traffic.close().catch((err: unknown) => {
      log.error({ err }, 'not everything could be removed; run usher cleanup')
    })
    await control.close()
    orders.close()
    admin.close()
    await leaveAddresses()
  }
  const first = firstState(source, reconciler, close)
  const startLate = async (): Promise<void> => {
    await first
    await takeOver.gone()
    await startAll()
  }
  const ready = takeOver.isAwaited ? Promise.race([startLate(), takeOver.refused]) : first
  ready.catch(() => {})
  nodeEvent('Normal', 'Starting', `Usher ${options.version}, ${traffic.mode.name} mode`)
  return {
    ready,
    status: async () => buildStatusDocument(await admin.status()),
    summary: () => ({
      servicePorts: reconciler
        .snapshots()
        .reduce((sum, { servicePorts }) => sum + servicePorts.size, 0),
      problems: control.problems().length,
    }),
    notListening: () => notListening(traffic),
    metricsAddress: () => listening?.metrics?.address() ?? '',
    healthzAddress: () => listening?.health?.address() ?? '',
    connections: () => admin.connections(),
    health: () => control.health.report(),
    reload: async () => {
      source.reload()
      traffic.dataPath()?.accessLog.reopen()
      while (source.reading?.() !== undefined) await source.reading()
      // What can't be applied is tried for as long as it takes.
      const applied = reconciler.applied().catch(() => {})
      await within(clock, longestReloadMs, applied)
    },
    leave: () => void (draining = true),
    drain: async ms => {
      draining = true
      await stop()
      await leaveToPredecessor()
      await connectTime.leave(traffic.mode.name)
      return traffic.mode.drain(ms)
    },
    leaveToSuccessor: async () => {
      await leaveAddresses()
      await connectTime.handOver()
    },
    close,
  }
}

interface ControlDeps extends Shared {
  /** Of the control socket, and of the servers for metrics and health. */
  readonly serverProblems: () => readonly Problem[]
  readonly registry: Registry
  readonly checks: ServiceChecks
  readonly traffic: Traffic
  readonly connectTime: ConnectTimePart
  readonly source: Source
  readonly emit: (event: ClusterEvent) => void
  readonly takeOver: TakeOverAtStart
}

type Control = ReturnType<typeof createControl>

/** What keeps what is served equal to what the source wants, and reports how that goes. */
const createControl = (deps: ControlDeps) => {
  const { options, clock, log, facts, registry, checks, traffic, connectTime } = deps
  const { source, emit, takeOver } = deps
  const { mode } = traffic
  const { syncPeriod, minSyncPeriod } = options.periods(mode.name)
  const health = new Health({
    clock,
    syncPeriodMs: syncPeriod,
    staleSteeringError: () => connectTime.staleSteeringError(),
    binds: () => redBinds(traffic),
    sourceSynced: () => source.status().synced,
    hungWorkers: () => traffic.dataPath()?.connectionLog.hungWorkers ?? [],
    relayGone: () => traffic.dataPath()?.connectionLog.relayGone,
  })
  const healthChecks = new ServiceHealthServers({
    clock,
    log,
    // Not `healthy`: one port that can't be bound is no reason to lose all Services.
    proxyHealthy: () => {
      const { live, carried } = health.report()
      return live && carried
    },
    addresses: family => healthCheckAddresses(facts, family, reconciler.snapshots()),
    mostServers: Math.floor(openFileLimit() / 16),
    failed: failure => emit(healthCheckEvent(failure)),
  })
  const modeProblems = () => [
    ...mode.problems,
    ...connectTime.problems(),
    ...healthChecks.problems,
    ...deps.serverProblems(),
    ...facts.serviceCidrProblems(),
    ...nodePortProblems(
      facts.nodePortCidrs,
      onLoopback(mode.name, options.kernel),
      reconciler.snapshots(),
    ),
  ]
  const modeProblemLog = new ProblemLog(log)
  const placementLog = new PlacementLog(
    log,
    (servicePort, bind) =>
      traffic.dataPath()?.connectionLog.failingBinds.has(servicePort, bind) ?? false,
  )
  const syncMetrics = new SyncMetrics()
  const changeLog = new ChangeLog(log, clock)
  const problemLog = new ProblemLog(log)
  const annotationEvents = new AnnotationEvents(emit)
  const modeAnnotationEvents = new AnnotationEvents(emit)
  const reconciler: Reconciler = new Reconciler({
    clock,
    registry,
    observers: [health, syncMetrics],
    mostWaitMs: minSyncPeriod,
    maxMs: syncPeriod,
    problems: problems => {
      problemLog.report(problems)
      annotationEvents.report(problems)
    },
    known: () => (takeOver.isAwaited ? takeOver.known(source) : Promise.resolve()),
    failed: error => log.error(reasonOf(error), 'sync failed; retrying'),
    taken: changes => {
      syncMetrics.taken(changes)
      changeLog.taken(changes)
    },
    sync: async snapshots => {
      // After a fallback from a kernel mode they begin with the next sync.
      checks.watch(hasRelay(mode.name) ? registry.checked() : new Map())
      traffic.dataPath()?.accessLog.want(snapshots)
      await connectTime.sync(snapshots)
      const sync = (): Promise<void> => mode.sync(snapshots)
      const { dataPath } = traffic
      const openDataPath = () => traffic.openDataPath(snapshots)
      await takeOver.during({ dataPath, openDataPath }, sync)
      connectTime.served()
      await healthChecks.sync(snapshots)
      modeProblemLog.report(modeProblems())
      modeAnnotationEvents.report(mode.problems)
      placementLog.report(mode.placements)
    },
  })
  return {
    reconciler,
    health,
    healthChecks,
    syncMetrics,
    /** Everything that can't be honoured now. */
    problems: () => [
      ...reconciler.allProblems(),
      ...modeProblems(),
      ...(traffic.dataPath()?.accessLog.problems() ?? []),
      ...(traffic.dataPath()?.connectionLog.failingBinds.problems() ?? []),
    ],
    close: async () => {
      reconciler.close()
      await healthChecks.close()
      changeLog.close()
    },
  }
}

/**
 * What can't be listened on and turns `/healthz` red. With capture local another program may have the
 * address and port of a VIP: nobody with rights on Services alone may take a node off for it, so
 * that it is a problem only, unless nothing at all is listened on.
 */
const redBinds = ({ mode, dataPath }: Traffic): readonly BindState[] => {
  const path = dataPath()
  const failing = path?.connectionLog.failingBinds.states() ?? []
  // Health is asked often, and there may be many placements.
  if (failing.length === 0 || path?.captureChoice().name !== 'local') return failing
  const binds = mode.placements.flatMap(one => one.vips.flatMap(vip => vip.binds))
  return failing.length < binds.length ? [] : failing
}

/** Whether Services that ask for what a relay has get it. */
const hasRelay = (mode: ModeName): boolean => mode === 'userspace' || mode === 'nftables'

/** What a tool of the system's said needs no stack. */
const reasonOf = (error: unknown): LogFields =>
  error instanceof ToolError ? { why: error.message } : { err: error }

const withUid = (event: ClusterEvent, registry: Registry): ClusterEvent => {
  const { kind, namespace, name } = event.regarding
  if (kind !== 'Service') return event
  const uid = registry.uidOf(`${namespace}/${name}`)
  return { ...event, regarding: { ...event.regarding, uid } }
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

/** Resolves when the source's first state is served; closes the proxy when there is none. */
const firstState = (
  source: Source,
  reconciler: Reconciler,
  close: () => Promise<void>,
): Promise<void> => {
  const start = async (): Promise<void> => {
    try {
      await source.start(reconciler)
      // A source that was closed before its first state never has one.
      if (source.status().synced) await reconciler.firstSync
    } catch (error) {
      await close()
      throw error
    }
  }
  const ready = start()
  // A caller that doesn't wait for it causes no unhandled rejection.
  ready.catch(() => {})
  return ready
}

/**
 * Addresses of Services that can't be dialled now, each with the reason: those that are
 * not this host's, and those that can't be bound.
 */
const notListening = ({ mode, dataPath }: Traffic): readonly string[] => {
  const foreign = mode.placements.flatMap(({ servicePort: { protocol }, vips }) =>
    vips
      .filter(({ capture }) => capture === 'not captured')
      .map(({ vip, reason }) => {
        const address = joinHostPort(vip.address, vip.port)
        return `cannot listen on ${protocol} ${address}: ${reason}`
      }),
  )
  const failing = dataPath()?.connectionLog.failingBinds.problems() ?? []
  return [...foreign, ...failing.map(({ message }) => message)]
}
