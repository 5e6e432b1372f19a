import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { createLog, type Log } from '../observe/log.ts'
import { resolveBy, resolveSrvBy } from '../source/routes/own-resolver.ts'
import { routeSource } from '../source/routes/route-source.ts'
import type { Source } from '../source/source.ts'
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
  return serve({ log, deps, mustListen: true }, options)
}

const routesOf = ({ route, resolver }: OptionsOf<'sidecar'>, log: Log): Source => {
  const own =
    resolver.length === 0
      ? {}
      : { resolve: resolveBy(resolver), resolveSrv: resolveSrvBy(() => resolver) }
  try {
    return routeSource({
      ...own,
      routes: route,
      onError: ({ message }) =>
        log.warn({ why: message }, 'a host name could not be resolved'),
    })
  } catch (error) {
    // Two routes with one listen address: a mistake in the call.
    throw new UsageError((error as Error).message, 'sidecar')
  }
}
