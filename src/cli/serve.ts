import { setTimeout } from 'node:timers/promises'
import type { SharedOptions } from '../config/options.ts'
import type { Log } from '../observe/log.ts'
import { noticesTo } from '../observe/notify-socket.ts'
import { ServiceManager, watchdogMs } from '../observe/service-manager.ts'
import type { ProxyDeps, RunningProxy, Successor } from '../proxy/options.ts'
import { startProxy } from '../proxy/start-proxy.ts'
import type { Source } from '../source/source.ts'
import { systemClock } from '../util/clock.ts'
import { type Stop, stopOnSignals } from './stop.ts'
import { count } from './io.ts'
import type { PodTurn } from './pod-turn.ts'
import { findPredecessor } from './predecessor.ts'
import { hasCode, UsherError } from '../util/usher-error.ts'

export interface Serving {
  readonly log: Log
  readonly deps: Omit<ProxyDeps, 'log'>
  /** Starts what may ask Usher to stop besides signals; gives what ends it. */
  readonly watch?: (stop: Stop, proxy: RunningProxy) => () => void
  /** An address that can't be listened on at the start ends Usher. */
  readonly mustListen?: boolean
  /** What only a sidecar has. */
  readonly pod?: PodLife
  /** Where another Usher is looked for whose place is to be taken; undefined: nowhere. */
  readonly takeOver?: string | undefined
  /** What only a pod of a node has. */
  readonly turn?: PodTurn | undefined
}

/** How it ends as one container of a pod. Its exit code is 0 whenever it was told to end. */
export interface PodLife {
  /** Milliseconds to go on accepting after a signal, as the application may. */
  readonly lingerMs: number
  /** The metrics server has POST /quitquitquit, which does what SIGTERM does. */
  readonly quitByHttp: boolean
}

const signalWithinMs = 1000

/** Milliseconds for addresses to be free that another Usher has had, and between two looks. */
const listenWithinMs = 5000
const lookMs = 20

/** So long it may take until the first state is served before that is logged. */
const notReadyMs = 5000

/** More add nothing new. */
const mostNamed = 5

/**
 * Serves until a signal, or whatever `watch` looks at, ends it, and gives the exit code.
 * SIGHUP reads the source again. SIGTERM or SIGINT stop accepting, at once or after lingering,
 * and let connections finish for `drainTimeout` milliseconds; a second one ends the lingering,
 * or the process at once. Rejects when the source's first state can't be read and waiting would
 * not help, or `mustListen`.
 */
export const serve = async (
  serving: Serving,
  options: Pick<SharedOptions, 'drainTimeout'>,
): Promise<number> => {
  const { log, pod, turn } = serving
  const stop = stopOnSignals(log, pod !== undefined)
  const code = await serveOnce(serving, stop, options)
  if (turn === undefined || stop.reason?.isReplaced !== true) return code
  return turn.rest(stop)
}

const serveOnce = async (
  serving: Serving,
  stop: Stop,
  { drainTimeout }: Pick<SharedOptions, 'drainTimeout'>,
): Promise<number> => {
  const { log, deps, watch = () => () => {}, mustListen = false, pod, turn } = serving
  let proxy: RunningProxy | undefined
  const silence = watchdogMs(process.env)
  let hasPredecessor = false
  const manager = new ServiceManager({
    notify: noticesTo(process.env, log),
    sentence: () => (proxy === undefined ? 'Starting' : healthSentence(proxy)),
    isLive: () => proxy?.health().live ?? true,
    watchdogMs: silence,
  })
  // Set before the start: without a listener the signal would end the process.
  process.on('SIGHUP', () => {
    log.info({}, 'SIGHUP: reading the source again')
    if (proxy !== undefined) void manager.whileReloading(proxy.reload())
  })
  try {
    await turn?.come(stop)
    await prepare(deps.source, log, stop)
    if (stop.reason !== undefined) {
      await deps.source.close()
      log.info({ reason: stop.reason.reason, starting: 'the initial state' }, 'stopped')
      return stop.reason.code
    }
    const quit = (): void => void stop.ask('POST /quitquitquit')
    const replaced = (by: Successor): void => {
      logReplaced(log, by)
      manager.replacedBy(by.pid)
      const reason = `PID ${by.pid} (${by.version}) has taken over`
      stop.request({ code: 0, reason, isReplaced: true })
      // Also when it is ending for another reason: the other one waits for its addresses.
      proxy?.leaveToSuccessor().catch((err: unknown) => {
        log.error({ err }, 'not everything was left to the other Usher')
      })
    }
    const predecessor = await findPredecessor(serving.takeOver, log)
    hasPredecessor = predecessor !== undefined
    proxy = await startProxy({
      ...deps,
      log,
      predecessor,
      replaced,
      watchdogMs: silence,
      ...(pod?.quitByHttp && { quit }),
    })
  } catch (error) {
    // A signal to the whole group, or from systemd to all of the unit, also ends what is being
    // started, before it handles signals; that may be seen before the signal is.
    if (hasCode(error, 'DATA_PLANE')) {
      await Promise.race([stop.requested, setTimeout(signalWithinMs)])
    }
    if (stop.reason === undefined) throw error
    const { code, reason } = stop.reason
    log.info({ reason, starting: (error as Error).message }, 'stopped')
    return code
  }
  const endWatch = watch(stop, proxy)
  const slow = logNotReady(log, proxy)
  try {
    const isReady = proxy.ready.then(() => true)
    // The first state may be long in coming, and a signal must not wait for it.
    const ready = await Promise.race([isReady, stop.requested.then(() => false)])
    slow.cancel()
    if (ready && mustListen) {
      if (hasPredecessor) await listening(proxy, stop)
      rejectNotListening(proxy)
    }
    if (ready) announce(log, proxy)
    if (ready) manager.ready()
    if (ready) turn?.serves()
    const { code, reason, mayLinger, isReplaced } = await stop.requested
    if (isReplaced === true) turn?.left()
    if (isReplaced === true) await proxy.leaveToSuccessor()
    if (isReplaced !== true)
      manager.stopping((mayLinger === true ? (pod?.lingerMs ?? 0) : 0) + drainTimeout)
    if (mayLinger === true) await linger(serving, stop, proxy)
    log.info({ reason, drainTimeoutMs: drainTimeout }, 'stopping: draining')
    const { reset } = await proxy.drain(drainTimeout)
    log.info({ reset }, 'stopped')
    return code
  } finally {
    slow.cancel()
    endWatch()
    await proxy.close()
    await manager.close()
  }
}

/** Until what the source has is read, or a signal came: nothing has begun yet that is to end in order. */
const prepare = async (source: Source, log: Log, stop: Stop): Promise<void> => {
  if (source.prepare === undefined) return
  const timer = systemClock.setTimeout(
    () => log.warn({ source: source.status().name }, 'still reading the initial state'),
    notReadyMs,
  )
  try {
    await Promise.race([source.prepare(), stop.requested])
  } finally {
    systemClock.clearTimeout(timer)
  }
}

/** A server that is silent says nothing for long: without this nobody knows what is waited for. */
const logNotReady = (log: Log, proxy: RunningProxy): { cancel: () => void } => {
  const timer = systemClock.setTimeout(() => {
    const { reasons } = proxy.health()
    log.warn({ reasons, advice: 'see usher status for details' }, 'not serving yet')
  }, notReadyMs)
  return { cancel: () => systemClock.clearTimeout(timer) }
}

/** Goes on accepting for a while, if that is asked for, and says so on /healthz. */
const linger = async (
  { log, pod }: Serving,
  stop: Stop,
  proxy: RunningProxy,
): Promise<void> => {
  const { lingerMs = 0 } = pod ?? {}
  if (lingerMs === 0) return
  proxy.leave()
  const reason = stop.reason?.reason
  log.info({ reason, lingerMs }, 'stopping: lingering, and still accepting')
  await stop.linger(lingerMs)
}

/** Where nothing was taken over, the one before lets go of its addresses, and each is tried again until then. */
const listening = async (proxy: RunningProxy, stop: Stop): Promise<void> => {
  const until = systemClock.now() + listenWithinMs
  while (
    proxy.notListening().length > 0 &&
    stop.reason === undefined &&
    systemClock.now() < until
  )
    await setTimeout(lookMs)
}

/** A proxy without an address that clients reach must not look like one that works. */
const rejectNotListening = (proxy: RunningProxy): void => {
  const missing = proxy.notListening()
  if (missing.length > 0)
    throw new UsherError('CANNOT_LISTEN', missing.slice(0, mostNamed).join('\n'))
}

/** One line, for `systemctl status`. */
const healthSentence = (proxy: RunningProxy): string => {
  const { healthy, reasons } = proxy.health()
  const [first = 'not healthy', ...more] = reasons
  if (!healthy) return more.length === 0 ? first : `${first} (and ${more.length} more)`
  const { servicePorts, problems } = proxy.summary()
  return `Healthy: ${count(servicePorts, 'port')} served, ${count(problems, 'problem')}`
}

/** Where people look. */
const pageOf = (proxy: RunningProxy): { readonly page?: string } => {
  const address = proxy.metricsAddress()
  return address === '' ? {} : { page: `http://${address}/` }
}

/** What becomes of connections that have stayed is said by the drain that follows. */
const logReplaced = (log: Log, by: Successor): void => {
  const { pid, version, refused, connections, staying } = by
  const fields = { pid, version, connections, staying }
  if (refused === '') return log.info(fields, 'handed over to another Usher')
  log.warn({ ...fields, why: refused }, 'nothing could be handed over to another Usher')
}

const announce = (log: Log, proxy: RunningProxy): void => {
  const { servicePorts, problems } = proxy.summary()
  log.info(
    {
      servicePorts,
      problems,
      ...pageOf(proxy),
      metrics: proxy.metricsAddress(),
      healthz: proxy.healthzAddress(),
    },
    'serving',
  )
}
