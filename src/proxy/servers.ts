import type { Routes } from '../observe/admin-routes.ts'
import type { Problem } from '../model/snapshot.ts'
import { startAdminServer, type AdminServer } from '../observe/admin-server.ts'
import type { Log } from '../observe/log.ts'
import type { ProxyOptions } from './options.ts'
import type { Bind } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'
import { UsherError } from '../util/usher-error.ts'

type Server = AdminServer | undefined

export interface ProxyServers {
  /** Undefined where the address is `off`. */
  readonly metrics: Server
  readonly health: Server
  /** Those that can't listen. */
  readonly problems: () => readonly Problem[]
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
  /** Sends an Event that a server can't listen. */
  readonly failed: (reason: string, message: string) => void
}

/**
 * Starts the metrics server and the health server. One that can't listen is logged and tried
 * again; with `bindHardFail` both are closed, and this rejects.
 */
export const startServers = async (
  options: ProxyOptions,
  routes: { readonly metrics: Routes; readonly health: Routes },
  deps: ProxyServersDeps,
): Promise<ProxyServers> => {
  const listens: readonly Listen[] = [
    {
      name: 'metrics',
      flag: '--metrics-bind-address',
      bind: options.metricsBindAddress,
      routes: routes.metrics,
      reason: 'FailedToStartMetricServer',
    },
    {
      name: 'health',
      flag: '--healthz-bind-address',
      bind: options.healthzBindAddress,
      routes: routes.health,
      reason: 'FailedToStartProxierHealthcheck',
    },
  ]
  const servers = await Promise.all(listens.map(listen => start(listen, deps)))
  const failures = servers.flatMap(server => server?.failure() || [])
  const notListening = listens.filter(
    ({ bind }, i) => bind && servers[i]?.address() === '',
  )
  for (const listen of notListening) deps.failed(listen.reason, failureText(listen))
  const [first] = notListening
  if (first !== undefined && options.bindHardFail === true) {
    await Promise.all(servers.map(async server => server?.close()))
    throw new UsherError('CANNOT_LISTEN', `${failureText(first)}: ${failures[0]}`)
  }
  const [metrics, health] = servers
  const problems = () =>
    listens.flatMap((listen, i) => {
      const why = servers[i]?.failure() ?? ''
      const message = `${failureText(listen)}: ${why}`
      return why === '' ? [] : [{ object: listen.flag, field: '', message }]
    })
  return { metrics, health, problems }
}

const start = async (
  { name, flag, bind, routes }: Listen,
  { log, clock }: ProxyServersDeps,
): Promise<Server> => bind && startAdminServer({ name, flag, bind, routes, log, clock })

const failureText = ({ name, bind }: Listen): string =>
  `the ${name} server cannot listen on ${bind ? joinHostPort(bind.address, bind.port) : ''}`
