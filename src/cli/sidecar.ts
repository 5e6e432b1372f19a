import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { createLog, type Log } from '../observe/log.ts'
import { routeSource } from '../source/routes/route-source.ts'
import type { Source } from '../source/source.ts'
import { isLoopback, joinHostPort } from '../util/ip.ts'
import { exitWhenIdle } from './exit-when-idle.ts'
import { relayLimits, relayOptions } from './relay-limits.ts'
import { serve } from './serve.ts'
import { version } from './version.ts'

/** `usher sidecar`: listens where its routes say, on addresses of this host. */
export const sidecar = async (options: OptionsOf<'sidecar'>): Promise<number> => {
  const log = await createLog({ level: options.logLevel, format: options.logFormat })
  const deps = {
    source: routesOf(options, log),
    options: {
      version: version(),
      capture: 'vips-only',
      captureAdvice: 'give a route an address of this host to listen on',
      bindAddress: '127.0.0.1',
      proxyPortRange: undefined,
      metricsBindAddress: options.metricsBindAddress,
      healthzBindAddress: options.healthzBindAddress,
      bindHardFail: true,
      periods: () => ({ syncPeriod: 30_000, minSyncPeriod: 0 }),
      ...relayOptions(options),
      // Nothing is started here: routes need no tools.
      sharesProcess: true,
      limits: relayLimits(options),
    },
  } as const
  const { exitWhenIdle: idleMs } = options
  return serve(
    {
      log,
      deps,
      mustListen: true,
      pod: { lingerMs: options.linger, quitByHttp: quitByHttp(options) },
      ...(idleMs > 0 && {
        watch: (stop, proxy) => exitWhenIdle({ stop, proxy, idleMs, log }),
      }),
    },
    options,
  )
}

/** Who reaches the address could end Usher; within a pod that is who could end it anyway. */
const quitByHttp = (options: OptionsOf<'sidecar'>): boolean => {
  const { quitquitquit, metricsBindAddress: bind } = options
  if (!quitquitquit || (bind !== undefined && isLoopback(bind.address)))
    return quitquitquit
  const is = bind === undefined ? 'off' : joinHostPort(bind.address, bind.port)
  throw new UsageError(
    `--quitquitquit: the metrics address has to be a loopback one, and is ${is}; give --metrics-bind-address 127.0.0.1:10249`,
    'sidecar',
  )
}

const routesOf = ({ route }: OptionsOf<'sidecar'>, log: Log): Source => {
  try {
    return routeSource({
      routes: route,
      onError: ({ message }) =>
        log.warn({ why: message }, 'a host name could not be resolved'),
    })
  } catch (error) {
    // Two routes with one listen address: a mistake in the call.
    throw new UsageError((error as Error).message, 'sidecar')
  }
}
