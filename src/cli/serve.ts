import type { SharedOptions } from '../config/options.ts'
import type { Log } from '../observe/log.ts'
import type { ProxyDeps, RunningProxy } from '../proxy/options.ts'
import { startProxy } from '../proxy/start-proxy.ts'
import { type Stop, stopOnSignals } from './stop.ts'
import { UsherError } from '../util/usher-error.ts'

export interface Serving {
  readonly log: Log
  readonly deps: Omit<ProxyDeps, 'log'>
  /** Starts what may ask Usher to stop besides signals; gives what ends it. */
  readonly watch?: (stop: Stop) => () => void
  /** An address that can't be listened on at the start ends Usher. */
  readonly mustListen?: boolean
}

/** More say nothing new. */
const mostNamed = 5

/**
 * Serves until a signal, or whatever `watch` looks at, ends it, and gives the exit code.
 * SIGHUP reads the source again. SIGTERM or SIGINT stop accepting and let connections
 * finish for `drainTimeout` milliseconds; a second one ends the process at once. Rejects
 * when the source's first state can't be read and waiting would not help, or `mustListen`.
 */
export const serve = async (
  { log, deps, watch = () => () => {}, mustListen = false }: Serving,
  { drainTimeout }: Pick<SharedOptions, 'drainTimeout'>,
): Promise<number> => {
  const stop = stopOnSignals(log)
  let proxy: RunningProxy | undefined
  // Set before the start: without a listener the signal would end the process.
  process.on('SIGHUP', () => {
    log.info({}, 'SIGHUP: reading the source again')
    proxy?.reload()
  })
  try {
    proxy = await startProxy({ ...deps, log })
  } catch (error) {
    if (stop.reason === undefined) throw error
    // A signal to the whole group, or from systemd to all of the unit, also ends what is being
    // started, before it handles signals.
    const { code, reason } = stop.reason
    log.info({ reason, starting: (error as Error).message }, 'stopped')
    return code
  }
  const endWatch = watch(stop)
  try {
    const isReady = proxy.ready.then(() => true)
    // The first state may be long in coming, and a signal must not wait for it.
    const ready = await Promise.race([isReady, stop.requested.then(() => false)])
    if (ready && mustListen) rejectNotListening(proxy)
    if (ready) announce(log, proxy)
    const { code, reason } = await stop.requested
    log.info({ reason, drainTimeoutMs: drainTimeout }, 'stopping: draining')
    const { reset } = await proxy.drain(drainTimeout)
    log.info({ reset }, 'stopped')
    return code
  } finally {
    endWatch()
    await proxy.close()
  }
}

/** A proxy without an address that clients reach must not look like one that works. */
const rejectNotListening = (proxy: RunningProxy): void => {
  const missing = proxy.notListening()
  if (missing.length > 0)
    throw new UsherError('CANNOT_LISTEN', missing.slice(0, mostNamed).join('\n'))
}

const announce = (log: Log, proxy: RunningProxy): void => {
  const { servicePorts, problems } = proxy.summary()
  log.info(
    {
      servicePorts,
      problems,
      metrics: proxy.metricsAddress(),
      healthz: proxy.healthzAddress(),
    },
    'serving',
  )
}
