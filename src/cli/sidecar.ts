import type { OptionsOf } from '../config/typed.ts'
import { UsageError } from '../config/usage-error.ts'
import type { Log } from '../observe/log.ts'
import { routeSource } from '../source/routes/route-source.ts'
import type { Source } from '../source/source.ts'
import { serve } from './serve.ts'

/** `usher sidecar`: listens where its routes say, on addresses of this host. */
export const sidecar = (options: OptionsOf<'sidecar'>): Promise<number> =>
  serve(log => routesOf(options, log), options, {
    capture: 'local',
    bindAddress: '127.0.0.1',
    proxyPortRange: undefined,
    syncPeriod: 30_000,
    minSyncPeriod: 0,
  })

const routesOf = ({ route }: OptionsOf<'sidecar'>, log: Log): Source => {
  try {
    return routeSource({
      routes: route,
      onError: err => log.warn({ err }, 'a host name could not be resolved'),
    })
  } catch (error) {
    // Two routes with one listen address: a mistake in the call.
    throw new UsageError((error as Error).message, 'sidecar')
  }
}
