import type { SharedOptions } from '../config/typed.ts'
import type { Log } from '../observe/log.ts'
import { createLog } from '../observe/log.ts'
import { type ProxyOptions, type RunningProxy, startProxy } from '../proxy.ts'
import type { RelayLimits } from '../relay/relay.ts'
import type { Source } from '../source/source.ts'
import { version } from './version.ts'

export const relayLimits = (options: SharedOptions): RelayLimits => ({
  dialLadderMs: options.dialLadder,
  halfCloseIdleMs: options.halfCloseTimeout,
  tcpIdleMs: options.tcpIdleTimeout,
  bufferBytes: options.connectionBuffer,
  udpReplyIdleMs: options.udpReplyTimeout,
  udpIdleMs: options.udpTimeout,
  udpFlowsPerListener: options.udpMaxFlowsPerPort,
  udpFlows: options.udpMaxFlows,
  reservedFds: options.reservedFds,
})

/** What `run` and `sidecar` decide differently. */
export type Where = Pick<
  ProxyOptions,
  'capture' | 'bindAddress' | 'proxyPortRange' | 'syncPeriod' | 'minSyncPeriod'
>

/**
 * Serves `source` until a signal ends it, and gives the exit code. SIGHUP reads the source
 * again. SIGTERM or SIGINT stop accepting and let connections finish for `drainTimeout`
 * milliseconds; a second one ends the process at once.
 */
export const serve = async (
  makeSource: (log: Log) => Source,
  options: SharedOptions,
  where: Where,
): Promise<number> => {
  const log = await createLog({ level: options.logLevel, format: options.logFormat })
  const stopped = stopSignal(log)
  let proxy: RunningProxy | undefined
  // Set before the start: without a listener the signal would end the process.
  process.on('SIGHUP', () => {
    log.info({}, 'SIGHUP: reading the source again')
    proxy?.reload()
  })
  proxy = await startProxy({
    source: makeSource(log),
    log,
    options: {
      version: version(),
      metricsBindAddress: options.metricsBindAddress,
      healthzBindAddress: options.healthzBindAddress,
      limits: relayLimits(options),
      ...where,
    },
  })
  announce(log, proxy)
  const signal = await stopped
  log.info({ signal, drainTimeoutMs: options.drainTimeout }, 'stopping: draining')
  const { reset } = await proxy.drain(options.drainTimeout)
  log.info({ reset }, 'stopped')
  await proxy.close()
  return 0
}

const announce = (log: Log, proxy: RunningProxy): void => {
  const { servicePorts, problems } = proxy.status()
  log.info(
    {
      servicePorts: servicePorts.length,
      problems: problems.length,
      metrics: proxy.metricsAddress(),
      healthz: proxy.healthzAddress(),
    },
    'serving',
  )
}

/** The first SIGTERM or SIGINT; the second ends the process with 128 + its number. */
const stopSignal = (log: Log): Promise<NodeJS.Signals> =>
  new Promise(resolve => {
    let stopping = false
    const stop = (signal: NodeJS.Signals, number: number): void => {
      if (stopping) {
        log.warn({ signal }, 'second signal: ending at once')
        process.exit(128 + number)
      }
      stopping = true
      resolve(signal)
    }
    process.on('SIGTERM', () => stop('SIGTERM', 15))
    process.on('SIGINT', () => stop('SIGINT', 2))
  })
