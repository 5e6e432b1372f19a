import type { Bind } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'
import { listenAdvice } from '../util/listen-advice.ts'
import type { Routes } from './admin-routes.ts'
import type { Log } from './log.ts'
import { boundAddress, closeServer, smallHttpServer } from './small-http-server.ts'

export interface AdminServerOptions {
  /** `metrics`, `health`; for the log. */
  readonly name: string
  /** The option that sets `bind`, for the advice when it fails. */
  readonly flag: string
  readonly bind: Bind
  readonly routes: Routes
  readonly log: Log
  readonly clock: Clock
}

export interface AdminServer {
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
    log.info({ server: name, address: boundAddress(server) }, 'admin server listens')
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
      'admin server cannot listen; trying again every 5 s',
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
