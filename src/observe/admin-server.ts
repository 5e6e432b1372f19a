import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import { hostname } from 'node:os'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Bind } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { joinHostPort, canonicalIp, familyOf } from '../util/ip.ts'
import { listenAdvice } from '../util/listen-advice.ts'
import type { Answer, Route, Routes } from './admin-routes.ts'
import { AnswersUnderWay } from './answers-under-way.ts'
import { ConnectionBound } from './connection-bound.ts'
import type { Log } from './log.ts'

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
/** Per server; together within what `--reserved-fds` keeps back. */
const mostConnections = 32
/** An answer that a client has not taken by then is cut. */
const answerMs = 60_000
/** Of answers that are being read, see `AnswersUnderWay`. */
const mostAnswerBytes = 64 << 20

/** A slow or silent client must not hold one of the few connections for long. */
export const clientTimeouts = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 1000,
}

const plain = (status: number, body: string): Answer => ({
  status,
  contentType: 'text/plain; charset=utf-8',
  body: `${body}\n`,
})

const send = async (
  response: ServerResponse,
  { status, contentType, body }: Answer,
  answers: AnswersUnderWay,
): Promise<void> => {
  const pages = typeof body === 'string' ? [Buffer.from(body)] : body
  response.writeHead(status, {
    'Content-Type': contentType,
    'Content-Length': pages.reduce((sum, page) => sum + page.length, 0),
    'X-Content-Type-Options': 'nosniff',
  })
  const sent = answers.sending(pages, () => response.destroy())
  try {
    // Of an answer to HEAD, node:http sends the headers alone.
    await pipeline(Readable.from(pages), response)
  } finally {
    sent()
  }
}

const answerOf = async (
  route: Route,
  answers: AnswersUnderWay,
  { name, log }: AdminServerOptions,
): Promise<Answer> => {
  try {
    return await answers.of(route)
  } catch (err) {
    log.error({ server: name, err }, 'a request could not be answered')
    return plain(500, 'internal error; the log has the reason')
  }
}

/** A server has to take the absolute form of a target too (RFC 9112, 3.2.2). */
const pathOf = (target: string): string =>
  target.startsWith('/')
    ? (target.split('?', 1)[0] ?? '')
    : URL.canParse(target)
      ? new URL(target).pathname
      : target

const decide = async (
  request: IncomingMessage,
  response: ServerResponse,
  answers: AnswersUnderWay,
  options: AdminServerOptions,
): Promise<Answer> => {
  const { bind, routes } = options
  const route = routes.get(pathOf(request.url ?? ''))
  if (route === undefined)
    return plain(404, `no such path; there are ${[...routes.keys()].join(', ')}`)
  const { method = '', headers } = request
  const methods = route.posted ? ['POST'] : ['GET', 'HEAD']
  // What follows may be a body of any length, which is not read.
  if (method !== 'GET' && method !== 'HEAD') response.setHeader('Connection', 'close')
  if (!methods.includes(method)) {
    response.setHeader('Allow', methods.join(', '))
    return plain(405, `only ${methods.join(' and ')}`)
  }
  if (!route.anyHost && !isHostAllowed(headers.host, bind.address))
    return plain(403, `the Host header must be an IP address, localhost or ${hostname()}`)
  if (route.posted && isFromPage(headers)) return plain(403, 'not for pages in a browser')
  return answerOf(route, answers, options)
}

/**
 * A page of any site can make a browser on this host post here. Every browser says then where the
 * page is from, and programs don't.
 */
const isFromPage = (headers: IncomingHttpHeaders): boolean =>
  headers.origin !== undefined || headers['sec-fetch-site'] !== undefined

/** The server, not yet listening. */
const serverOf = (options: AdminServerOptions): Server => {
  const { name, log, clock } = options
  const answers = new AnswersUnderWay(mostAnswerBytes)
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const cut = clock.setTimeout(() => response.destroy(), answerMs)
    let sent: Answer['sent']
    try {
      const answer = await decide(request, response, answers, options)
      sent = answer.sent
      await send(response, answer, answers)
    } catch (err) {
      log.debug({ server: name, err }, 'a client left before it had its answer')
    } finally {
      clock.clearTimeout(cut)
      sent?.()
    }
  }
  const server = createServer(clientTimeouts, (request, response) => {
    void respond(request, response)
  })
  const connections = new ConnectionBound(mostConnections)
  server.on('connection', socket => {
    connections.admit(socket)
    // Idle ones give way, so that a probe still gets in.
    if (connections.open > mostConnections / 2) server.closeIdleConnections()
  })
  return server
}

const boundAddress = (server: Server): string => {
  const bound = server.address()
  return bound === null || typeof bound === 'string'
    ? ''
    : joinHostPort(bound.address, bound.port)
}

/**
 * Starts a small HTTP server for people and probes. Resolves when the first try to
 * listen has ended, well or not: a port in use is logged and tried again every 5 s,
 * since traffic must flow also where it can't be observed.
 */
export const startAdminServer = async (
  options: AdminServerOptions,
): Promise<AdminServer> => {
  const { name, flag, bind, log, clock } = options
  const server = serverOf(options)
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
      const ended = new Promise<void>(resolve => server.close(() => resolve()))
      server.closeAllConnections()
      await ended
    },
  }
}

/** Whether only this host can reach an address: 127.0.0.0/8, ::1 or `localhost`. */
const isLoopback = (address: string): boolean => {
  const family = familyOf(address)
  if (family === undefined) return address === 'localhost'
  return family === 'IPv4' ? address.startsWith('127.') : canonicalIp(address) === '::1'
}

/** `node-1.example` and `node-1`. */
const ownNames = (): readonly string[] => {
  const name = hostname().toLowerCase()
  return [name, name.split('.', 1)[0] ?? name].filter(Boolean)
}

/**
 * Whether a request with this Host header may have been meant for a server on
 * `boundTo`. A web page can make its own name resolve to 127.0.0.1 and then read
 * answers as if they came from its own server (DNS rebinding); but the browser still
 * sends that name. No other site can have an IP address, `localhost` or the host's own
 * names for its name. Servers that others are to reach (Prometheus, by whatever name)
 * listen on another address than loopback, and take every name.
 */
export const isHostAllowed = (host: string | undefined, boundTo: string): boolean => {
  if (host === undefined || !isLoopback(boundTo)) return true
  const name = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1] ?? host.replace(/:\d*$/, '')
  return (
    familyOf(name) !== undefined ||
    ['localhost', boundTo.toLowerCase(), ...ownNames()].includes(name.toLowerCase())
  )
}
