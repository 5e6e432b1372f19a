import type { Routes } from '../observe/admin-routes.ts'
import type { OwnServer } from '../model/own-ways.ts'
import type { Problem } from '../model/snapshot.ts'
import type { Log } from '../observe/log.ts'
import type { ProxyOptions } from './options.ts'
import type { Bind } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { joinHostPort, splitHostPort } from '../util/ip.ts'
import { UsherError } from '../util/usher-error.ts'
import { listenAdvice } from '../util/listen-at.ts'
import {
  boundAddress,
  closeServer,
  smallHttpServer,
} from '../observe/small-http-server.ts'

type Server = AdminServer | undefined

export interface ProxyServers {
  /** Undefined where the address is `off`. */
  readonly metrics: Server
  readonly health: Server
  /** Where they listen, or are to. */
  readonly bound: readonly OwnServer[]
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
      const reason = servers[i]?.failure() ?? ''
      const message = `${failureText(listen)}: ${reason}`
      return reason === '' ? [] : [{ object: listen.flag, field: '', message }]
    })
  const bound = listens.flatMap(({ flag, bind = { address: '', port: 0 } }, i) => {
    const { port } = splitHostPort(servers[i]?.address() ?? '') ?? bind
    return port === 0 ? [] : { address: bind.address, port, flag }
  })
  return { metrics, health, bound, problems }
}

const start = async (
  { name, flag, bind, routes }: Listen,
  { log, clock }: ProxyServersDeps,
): Promise<Server> => bind && startAdminServer({ name, flag, bind, routes, log, clock })

const failureText = ({ name, bind }: Listen): string =>
  `the ${name} server cannot listen on ${bind ? joinHostPort(bind.address, bind.port) : ''}`

interface AdminServerOptions {
  /** `metrics`, `health`; for the log. */
  readonly name: string
  /** The option that sets `bind`, for the advice when it fails. */
  readonly flag: string
  readonly bind: Bind
  readonly routes: Routes
  readonly log: Log
  readonly clock: Clock
}

interface AdminServer {
  /** `host:port` it listens on, '' while it does not. */
  address(): string
  /** Why it does not listen, and what to do about it; '' while it does. */
  failure(): string
  close(): Promise<void>
}

const retryMs = 5000

/**
 * Starts a small HTTP server for people and probes. Resolves when the first try to
 * listen has ended, well or not: a port in use is logged and tried again every 5 s,
 * since traffic must flow also where it can't be observed.
 */
export const startAdminServer = async (
  options: AdminServerOptions,
): Promise<AdminServer> => {
  const { name, flag, bind, log, clock } = options
  const server = smallHttpServer({
    name,
    address: bind.address,
    routes: options.routes,
    log,
    clock,
  })
  let retry: Timer | undefined
  let failures = 0
  let failure = ''
  let closed = false
  const firstTry = new Promise<void>(resolve => {
    server.once('listening', resolve)
    server.once('error', () => resolve())
  })
  const listen = (): void => {
    server.listen({ host: bind.address, port: bind.port })
  }

  server.on('listening', () => {
    // `close` came while the address was being looked up.
    if (closed) server.close()
    failures = 0
    failure = ''
    log.info({ server: name, address: boundAddress(server) }, 'admin server is listening')
  })
  server.on('error', (error: NodeJS.ErrnoException) => {
    const fields = { server: name, address: joinHostPort(bind.address, bind.port) }
    if (server.listening) {
      // Accepting failed (EMFILE); the socket itself is well.
      log.warn({ ...fields, err: error }, 'admin server could not accept a connection')
      return
    }
    failures += 1
    const advice = listenAdvice(
      error.code,
      `give another address with ${flag}, port 0 for any that is free, or off`,
    )
    failure = `${error.code ?? error.message}: ${advice}`
    log[failures === 1 ? 'error' : 'debug'](
      { ...fields, error: error.message, advice },
      'admin server cannot listen; retrying every 5 s',
    )
    if (!closed) retry = clock.setTimeout(listen, retryMs)
  })

  listen()
  await firstTry
  return {
    address: () => boundAddress(server),
    failure: () => failure,
    close: async () => {
      closed = true
      clock.clearTimeout(retry)
      await closeServer(server)
    },
  }
}
