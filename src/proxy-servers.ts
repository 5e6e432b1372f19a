import type { Routes } from './observe/admin-routes.ts'
import { startAdminServer, type AdminServer } from './observe/admin-server.ts'
import type { Log } from './observe/log.ts'
import type { ProxyOptions } from './proxy-options.ts'
import type { Bind } from './relay/relay.ts'
import type { Clock } from './util/clock.ts'
import { joinHostPort } from './util/ip.ts'

type Server = AdminServer | undefined

export interface ProxyServers {
  /** Undefined where the address is `off`. */
  readonly metrics: Server
  readonly health: Server
}

interface Listen {
  readonly name: string
  readonly flag: string
  readonly bind: Bind | undefined
  readonly routes: Routes
  /** The reason of the Event when it can't listen. */
  readonly reason: string
}

export interface ProxyServersDeps {
  readonly log: Log
  readonly clock: Clock
  /** Tells the cluster that a server can't listen. */
  readonly failed: (reason: string, message: string) => void
}

/**
 * Starts the metrics server and the health server. One that can't listen is told and tried
 * again; with `bindHardFail` it makes this reject instead.
 */
export const startServers = async (
  options: ProxyOptions,
  routes: { readonly metrics: Routes; readonly health: Routes },
  deps: ProxyServersDeps,
): Promise<ProxyServers> => {
  const [metrics, health] = await Promise.all([
    start({
      name: 'metrics',
      flag: '--metrics-bind-address',
      bind: options.metricsBindAddress,
      routes: routes.metrics,
      reason: 'FailedToStartMetricServer',
    }),
    start({
      name: 'health',
      flag: '--healthz-bind-address',
      bind: options.healthzBindAddress,
      routes: routes.health,
      reason: 'FailedToStartProxierHealthcheck',
    }),
  ])
  return { metrics, health }

  async function start({ reason, bind, ...rest }: Listen): Promise<Server> {
    if (bind === undefined) return undefined
    const server = await startAdminServer({ ...rest, bind, ...deps })
    if (server.address() !== '') return server
    const where = joinHostPort(bind.address, bind.port)
    const message = `the ${rest.name} server cannot listen on ${where}`
    deps.failed(reason, message)
    if (options.bindHardFail !== true) return server
    await server.close()
    throw new CannotListen(`${message}, and --bind-address-hard-fail is set`)
  }
}

/** A reason to end that needs no stack. */
class CannotListen extends Error {
  override readonly name = 'CannotListen'
  readonly code = 'EADDRINUSE'
}
