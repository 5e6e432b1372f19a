import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { hostname } from 'node:os'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../util/clock.ts'
import { canonicalIp, familyOf, isLoopback, joinHostPort, unmapped } from '../util/ip.ts'
import { type Answer, plain, type Route, type Routes } from './admin-routes.ts'
import type { Log } from './log.ts'
import { textOf } from '../util/read-text.ts'

export interface SmallHttpServerOptions {
  /** `metrics`, `health`, `control`; for the log. */
  readonly name: string
  /** The address it is to listen on; undefined for a socket of the file system. */
  readonly address?: string
  readonly routes: Routes
  readonly log: Log
  readonly clock: Clock
  /** Why nothing is answered now; '' when it is. */
  readonly refusal?: () => string
}

/** Per server; together within what `--reserved-fds` keeps back. */
const mostConnections = 32
/** An answer that a client has not taken by then is cut. */
const answerMs = 60_000
/** Of answers that are being read, see `AnswersUnderWay`. */
const mostAnswerBytes = 64 << 20

/** A slow or silent client must not hold one of the few connections for long. */
export const clientTimeouts = {
  headersTimeout: 5000,
  requestTimeout: 5000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 1000,
}

const send = async (
  response: ServerResponse,
  { status, contentType, body, headers = {} }: Answer,
  answers: AnswersUnderWay,
): Promise<void> => {
  const common = {
    ...headers,
    'Content-Type': contentType,
    'X-Content-Type-Options': 'nosniff',
  }
  const { method, headers: asked, socket } = response.req
  if (headers['ETag'] !== undefined && headers['ETag'] === asked['if-none-match']) {
    response.writeHead(304, common).end()
    return
  }
  if (body instanceof Readable) {
    response.writeHead(status, common)
    response.flushHeaders()
    if (method === 'HEAD') {
      body.destroy()
      response.end()
      return
    }
    // What the kernel has for one that is cut would else stay there for minutes.
    body.once('close', () => body.readableEnded || socket.resetAndDestroy())
    return pipeline(body, response)
  }
  const pages = typeof body === 'string' ? [Buffer.from(body)] : body
  response.writeHead(status, {
    ...common,
    'Content-Length': pages.reduce((sum, page) => sum + page.length, 0),
  })
  const sent = answers.sending(pages, () => response.destroy())
  try {
    // Of an answer to HEAD, node:http sends the headers alone.
    await pipeline(Readable.from(pages), response)
  } finally {
    sent()
  }
}

/** Undefined: it is longer than `most` bytes. Rejects when the client leaves, or is too slow. */
const bodyOf = (request: IncomingMessage, most: number): Promise<string | undefined> =>
  // The connection is still needed for the answer.
  textOf(request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>, most)

const answerOf = async (
  route: Route,
  request: IncomingMessage,
  answers: AnswersUnderWay,
  { name, log }: SmallHttpServerOptions,
): Promise<Answer> => {
  const { mostBody, query } = route
  const body = mostBody === undefined ? '' : await bodyOf(request, mostBody)
  if (body === undefined) return plain(413, `the body is longer than ${mostBody} bytes`)
  try {
    const client = clientOf(request.socket)
    if (mostBody !== undefined) return await route.answer(body, client)
    return await answers.of(route, query?.(queryOf(request.url ?? '')) ?? '', client)
  } catch (err) {
    log.error({ server: name, err }, 'a request could not be answered')
    return plain(500, 'internal error; the log has the reason')
  }
}

const clientOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string =>
  remoteAddress === '' ? '' : joinHostPort(unmapped(remoteAddress), remotePort)

/** A server has to take the absolute form of a target too (RFC 9112, 3.2.2). */
const pathOf = (target: string): string =>
  target.startsWith('/')
    ? (target.split('?', 1)[0] ?? '')
    : URL.canParse(target)
      ? new URL(target).pathname
      : target

const queryOf = (target: string): string => {
  const at = target.indexOf('?')
  return at === -1 ? '' : target.slice(at + 1)
}

const decide = async (
  request: IncomingMessage,
  response: ServerResponse,
  answers: AnswersUnderWay,
  options: SmallHttpServerOptions,
): Promise<Answer> => {
  const { address, routes, refusal = () => '' } = options
  const refused = refusal()
  if (refused !== '') {
    response.setHeader('Connection', 'close')
    return plain(503, refused)
  }
  const route = routes.get(pathOf(request.url ?? ''))
  if (route === undefined) {
    const listed = [...routes].filter(([, { unlisted }]) => !unlisted)
    return plain(
      404,
      `no such path; there are ${listed.map(([path]) => path).join(', ')}`,
    )
  }
  const { method = '', headers } = request
  const methods = route.posted ? ['POST'] : ['GET', 'HEAD']
  // What follows may be a body of any length, of which no more is read than `mostBody`.
  if (method !== 'GET' && method !== 'HEAD') response.setHeader('Connection', 'close')
  if (!methods.includes(method)) {
    response.setHeader('Allow', methods.join(', '))
    return plain(405, `only ${methods.join(' and ')}`)
  }
  // What only this host may see, a page that took the name of another may not see either.
  const boundTo = route.onlyThisHost ? '127.0.0.1' : address
  if (!route.anyHost && !isHostAllowed(headers.host, boundTo))
    return plain(403, `the Host header must be an IP address, localhost or ${hostname()}`)
  if (route.onlyThisHost && !isOnThisHost(request))
    return plain(403, 'only for clients on the same host, at a loopback address')
  if (route.posted && isFromPage(headers)) return plain(403, 'not for pages in a browser')
  if ((route.onlyThisHost || route.notForOtherSites) && isFromOtherSite(headers))
    return plain(403, 'not for pages of other sites')
  return answerOf(route, request, answers, options)
}

/** Clients of a socket of the file system have no address. A proxy on this host speaks for others. */
const isOnThisHost = ({ headers, socket }: IncomingMessage): boolean =>
  !['forwarded', 'x-forwarded-for', 'via'].some(name => name in headers) &&
  (socket.remoteAddress === undefined || isLoopback(unmapped(socket.remoteAddress)))

/**
 * A page of any site can make a browser on this host post here. Every browser says then where the
 * page is from, and programs don't.
 */
const isFromPage = (headers: IncomingHttpHeaders): boolean =>
  headers.origin !== undefined || headers['sec-fetch-site'] !== undefined

/** Not to every address do browsers say it; of requests to other sites they tell the origin. */
const isFromOtherSite = ({ host, origin, ...headers }: IncomingHttpHeaders): boolean => {
  const site = headers['sec-fetch-site']?.toString()
  if (!['same-origin', 'none', undefined].includes(site)) return true
  if (origin === undefined || site === 'same-origin') return false
  return !URL.canParse(origin) || new URL(origin).host !== host
}

/** A small HTTP server for people and programs that look after Usher, not yet listening. */
export const smallHttpServer = (options: SmallHttpServerOptions): Server => {
  const { name, log, clock } = options
  const answers = new AnswersUnderWay(mostAnswerBytes)
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const cut = clock.setTimeout(() => response.destroy(), answerMs)
    let sent: Answer['sent']
    try {
      const answer = await decide(request, response, answers, options)
      sent = answer.sent
      if (answer.body instanceof Readable) clock.clearTimeout(cut)
      await send(response, answer, answers)
    } catch (err) {
      log.debug({ server: name, err }, 'a client left before it had its answer')
    } finally {
      clock.clearTimeout(cut)
      sent?.()
    }
  }
  // One that asks again before it is answered: the bounds are of connections. Nobody does (RFC 9112,
  // 9.3.2 lets them) but who wants to get round those.
  const busy = new WeakSet<Socket>()
  const server = createServer(clientTimeouts, (request, response) => {
    const { socket } = request
    if (busy.has(socket)) {
      socket.destroy()
      return
    }
    busy.add(socket)
    response.once('close', () => busy.delete(socket))
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

/** `host:port` it listens on, '' while it does not. */
export const boundAddress = (server: Server): string => {
  const bound = server.address()
  return bound === null || typeof bound === 'string'
    ? ''
    : joinHostPort(bound.address, bound.port)
}

/** Ends all connections at once; resolves when the port is free. */
export const closeServer = async (server: Server): Promise<void> => {
  const ended = new Promise<void>(resolve => server.close(() => resolve()))
  server.closeAllConnections()
  await ended
}

/** Whether only this host can reach what is bound there. */
const isForThisHost = (boundTo: string): boolean =>
  boundTo === 'localhost' || isLoopback(canonicalIp(boundTo) ?? '')

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
export const isHostAllowed = (host: string | undefined, boundTo = ''): boolean => {
  if (host === undefined || !isForThisHost(boundTo)) return true
  const name = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1] ?? host.replace(/:\d*$/, '')
  return (
    familyOf(name) !== undefined ||
    ['localhost', boundTo.toLowerCase(), ...ownNames()].includes(name.toLowerCase())
  )
}

/**
 * Bounds the open connections of small HTTP servers. One too many replaces the oldest
 * connection of the client that has most: if the new one were refused, a client with a few
 * slow connections would keep the kubelet's probe out, and the kubelet would kill Usher.
 */
export class ConnectionBound {
  readonly #most: number
  /** With the client's address, oldest first. */
  readonly #open = new Map<Socket, string>()

  constructor(most: number) {
    this.#most = most
  }

  /** How many are open. */
  get open(): number {
    return this.#open.size
  }

  admit(socket: Socket): void {
    if (this.#open.size >= this.#most) this.#evict()
    this.#open.set(socket, socket.remoteAddress ?? '')
    socket.once('close', () => this.#open.delete(socket))
  }

  #evict(): void {
    const counts = new Map<string, number>()
    for (const address of this.#open.values())
      counts.set(address, (counts.get(address) ?? 0) + 1)
    const most = Math.max(...counts.values())
    for (const [socket, address] of this.#open)
      if (counts.get(address) === most) {
        // It is open for a moment more; its place is free now.
        this.#open.delete(socket)
        socket.destroy()
        return
      }
  }
}

type Pages = readonly Buffer[]

interface UnderWay {
  readonly bytes: number
  /** Each cuts the answer of one reader. */
  readonly cuts: Set<() => void>
}

/**
 * The answers of one server that are being made or sent. The status of 10 000 ServicePorts
 * has 20 MB, and a client may read slowly: requests that come while an answer is made get
 * the same one, and while more than `mostBytes` are under way the oldest answers are cut.
 */
class AnswersUnderWay {
  readonly #mostBytes: number
  readonly #making = new Map<Route, Map<string, Promise<Answer>>>()
  /** Oldest first. */
  readonly #sent = new Map<Pages, UnderWay>()
  #bytes = 0

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** `given`: what the route goes by, of a request. */
  of(route: Route, given: string, client: string): Answer | Promise<Answer> {
    const making = this.#making.get(route) ?? new Map<string, Promise<Answer>>()
    const same = making.get(given)
    if (same !== undefined) return same
    const answer = route.answer(given, client)
    if (!(answer instanceof Promise)) return answer
    const made = answer.finally(() => making.delete(given))
    making.set(given, made)
    this.#making.set(route, making)
    return made
  }

  /** Sending begins; gives what is to be called at its end. `cut` ends it early. */
  sending(pages: Pages, cut: () => void): () => void {
    const bytes = pages.reduce((sum, page) => sum + page.length, 0)
    const one = this.#sent.get(pages) ?? { bytes, cuts: new Set() }
    if (one.cuts.size === 0) {
      this.#sent.set(pages, one)
      this.#bytes += bytes
    }
    one.cuts.add(cut)
    this.#cutOthers(pages)
    return () => {
      if (one.cuts.delete(cut) && one.cuts.size === 0) this.#forget(pages, one)
    }
  }

  #cutOthers(newest: Pages): void {
    for (const [pages, one] of this.#sent) {
      if (this.#bytes <= this.#mostBytes || pages === newest) return
      this.#forget(pages, one)
      for (const cut of one.cuts) cut()
      one.cuts.clear()
    }
  }

  #forget(pages: Pages, { bytes }: UnderWay): void {
    this.#sent.delete(pages)
    this.#bytes -= bytes
  }
}
