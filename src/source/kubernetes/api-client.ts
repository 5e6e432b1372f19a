import {
  request as httpRequest,
  type Agent,
  type IncomingMessage,
  type IncomingHttpHeaders,
} from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { checkServerIdentity } from 'node:tls'
import { type Clock, orAborted, wait } from '../../util/clock.ts'
import { apiErrorOf, type ApiError } from './api-error.ts'
import type { Access, Credentials } from './credentials.ts'
import { hostOf, portOf } from './proxy.ts'
import { readStart } from './read-body.ts'
import { TokenBucket } from '../../util/token-bucket.ts'
import { errorOf, hasCode, UsherError } from '../../util/usher-error.ts'
import {
  type AddressPort,
  canonicalIp,
  joinHostPort,
  withoutZone,
} from '../../util/ip.ts'

export interface ApiRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH'
  /** `/api/v1/services`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default: `application/json`. */
  readonly contentType?: string
  /** Ends the request, and the body of its response, too. */
  readonly signal: AbortSignal
}

export interface ApiResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** To be read to its end, or destroyed. */
  readonly body: IncomingMessage
}

/** How many requests had the same outcome, for `rest_client_requests_total`. */
export interface RequestCount {
  /** The HTTP status, or `<error>` when there was no answer, as client-go counts. */
  readonly code: string
  readonly method: string
  readonly host: string
  readonly count: number
}

export interface ApiClientOptions {
  readonly server: URL
  readonly credentials: Credentials
  /** What connections are made and kept by; ended with the client. */
  readonly agent: Agent
  /** That the agent connects through. */
  readonly proxy?: URL | undefined
  /** How host names are found; by default as Node does. */
  readonly lookup?: LookupFunction | undefined
  readonly clock: Clock
  /** `usher/0.1.0`. */
  readonly userAgent: string
  /** Requests a second; 0: 5, negative: no limit. */
  readonly qps?: number | undefined
  /** Requests in a row; 0: 10. */
  readonly burst?: number | undefined
  /** Milliseconds from the request to the head of its response; default 30 000. */
  readonly headMs?: number
}

const defaultHeadMs = 30_000
/** Less than what balancers of layer 4 and NATs remember an idle connection for. */
const tcpKeepAliveMs = 10_000
const longestStatus = 65_536

/** Requests to one API server, over connections that are kept. */
export class ApiClient {
  /** `https://10.96.0.1:443`. */
  readonly server: string
  /** `http://proxy.example:3128`; undefined when the server is dialled itself. */
  readonly proxy: string | undefined
  /** Where it dials. */
  readonly dialled = new Dialled()
  readonly #url: URL
  readonly #options: ApiClientOptions
  readonly #limit: RateLimit
  readonly #counts = new Map<string, { method: string; code: string; count: number }>()

  constructor(options: ApiClientOptions) {
    this.#options = options
    this.#url = options.server
    this.server = originOf(options.server)
    this.proxy = options.proxy && originOf(options.proxy)
    for (const url of [options.server, options.proxy ?? options.server])
      this.dialled.add(hostOf(url), portOf(url))
    this.#limit = new RateLimit(options.clock, options.qps, options.burst)
  }

  /**
   * Resolves with the head of the response; rejects with ApiError for any status but 2xx,
   * and with errors of the network or the credentials. A 401 makes it look for new
   * credentials and, when there are, try once more.
   */
  async request(request: ApiRequest): Promise<ApiResponse> {
    const { signal } = request
    for (let first = true; ; first = false) {
      await this.#limit.take(signal)
      const { credentials } = this.#options
      const access = await orAborted(credentials.current(), signal)
      const response = await this.#sendFresh(request, access)
      if (response.status < 300) return response
      const error = await this.#errorOf(response)
      if (error.status !== 401 || !first) throw error
      if (!(await orAborted(this.#hasOthers(access), signal))) throw error
    }
  }

  /**
   * Whether there are other credentials than those that were refused. All requests are
   * refused at once when they expire, and one of them may have found the new ones already.
   */
  async #hasOthers(refused: Access): Promise<boolean> {
    const { credentials } = this.#options
    if ((await credentials.current()) !== refused) return true
    return (await credentials.refresh()) || (await credentials.current()) !== refused
  }

  /** Since the start. */
  requests(): readonly RequestCount[] {
    const { host } = this.#url
    return [...this.#counts.values()].map(({ code, method, count }) => ({
      code,
      method,
      host,
      count,
    }))
  }

  /** Closes idle connections; those in use end with the signals of their requests. */
  close(): void {
    this.#options.agent.destroy()
    this.#options.credentials.close?.()
  }

  /** A kept connection may have been closed by the server a moment ago: then again, anew. */
  async #sendFresh(request: ApiRequest, access: Access): Promise<ApiResponse> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send(request, access)
      } catch (error) {
        if (!hasCode(error, 'STALE_CONNECTION')) throw error
        if (attempt > 2 || (request.method ?? 'GET') !== 'GET') throw error.cause
        // The server may have seen it all the same: it counts.
        await this.#limit.take(request.signal)
      }
    }
  }

  #send(request: ApiRequest, access: Access): Promise<ApiResponse> {
    const { agent, lookup, clock, headMs = defaultHeadMs, userAgent } = this.#options
    const { method = 'GET', signal } = request
    const json = request.body === undefined ? undefined : JSON.stringify(request.body)
    const url = this.#url
    const { servername = hostOf(url), ...tls } = access.tls
    const answer = new Promise<ApiResponse>((resolve, reject) => {
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest
      const sent = send({
        // Each set of certificates has connections of its own.
        ...tls,
        // TLS does not ask for addresses (RFC 6066, section 3); a certificate may have them.
        servername: isIP(servername) === 0 ? servername : '',
        checkServerIdentity: (_, cert) => checkServerIdentity(servername, cert),
        agent,
        ...(lookup && { lookup }),
        protocol: url.protocol,
        host: hostOf(url),
        port: portOf(url),
        method,
        path: `${url.pathname.replace(/\/$/, '')}${request.path}${queryOf(request.query)}`,
        headers: {
          accept: 'application/json',
          'user-agent': userAgent,
          ...(json !== undefined && {
            'content-type': request.contentType ?? 'application/json',
            'content-length': Buffer.byteLength(json),
          }),
          ...access.headers,
        },
        signal,
      })
      // Rejected here too: while an agent waits for its proxy, destroying emits nothing.
      const timer = clock.setTimeout(() => {
        const error = new Error(`no answer within ${Math.round(headMs / 1000)} s`)
        sent.destroy(error)
        reject(error)
      }, headMs)
      sent.on('socket', socket => {
        socket.setKeepAlive(true, tcpKeepAliveMs)
        this.dialled.watch(socket, portOf(url))
      })
      let answered = false
      sent.on('response', body => {
        answered = true
        this.dialled.watch(body.socket, portOf(url))
        clock.clearTimeout(timer)
        const status = body.statusCode ?? 0
        this.#count(method, String(status))
        resolve({ status, headers: body.headers, body })
      })
      // After the response it is an error of the body, which its reader gets.
      sent.on('error', (error: NodeJS.ErrnoException) => {
        clock.clearTimeout(timer)
        if (answered) return
        if (!signal.aborted) this.#count(method, '<error>')
        const stale = sent.reusedSocket && staleCodes.has(error.code ?? '')
        reject(stale ? staleConnection(error) : error)
      })
      // Without an error it ends when a server switches protocols (101).
      sent.on('close', () => {
        clock.clearTimeout(timer)
        if (!answered) reject(new Error('the connection ended without an answer'))
      })
      sent.end(json)
    })
    return orAborted(answer, signal)
  }

  async #errorOf({ status, headers, body }: ApiResponse): Promise<ApiError> {
    const { clock, headMs = defaultHeadMs } = this.#options
    const text = await readStart(body, longestStatus, { clock, silenceMs: headMs })
    return apiErrorOf(status, headers, text)
  }

  #count(method: string, code: string): void {
    const key = `${method} ${code}`
    const found = this.#counts.get(key)
    if (found !== undefined) found.count += 1
    else this.#counts.set(key, { code, method, count: 1 })
  }
}

const staleCodes = new Set(['ECONNRESET', 'EPIPE'])

const staleConnection = (cause: Error): UsherError =>
  new UsherError('STALE_CONNECTION', 'the kept connection was closed', { cause })

const originOf = (url: URL): string => `${url.protocol}//${url.hostname}:${portOf(url)}`

const queryOf = (query: Readonly<Record<string, string>> | undefined): string =>
  query === undefined ? '' : `?${new URLSearchParams(query).toString()}`

const defaultQps = 5
const defaultBurst = 10

/**
 * Limits requests, with client-go's reading of `clientConnection`: 0 stands for the
 * default (5 a second, 10 in a row), a negative qps for no limit.
 */
export class RateLimit {
  readonly #clock: Clock
  readonly #bucket: TokenBucket

  constructor(clock: Clock, qps = 0, burst = 0) {
    this.#clock = clock
    this.#bucket = new TokenBucket(
      clock,
      burst > 0 ? burst : defaultBurst,
      qps < 0 ? 0 : 1000 / (qps || defaultQps),
    )
  }

  /** Resolves when it is one's turn, first come first served; rejects when aborted. */
  async take(signal: AbortSignal): Promise<void> {
    // Each that waits has its token reserved.
    this.#bucket.take()
    const ms = this.#bucket.msUntil(0)
    if (ms > 0) await wait(this.#clock, ms, signal)
    if (!signal.aborted) return
    this.#bucket.giveBack()
    throw errorOf(signal.reason)
  }
}

/** The most recent are remembered: names may have many addresses, and these may change. */
const mostKnown = 100

/** By which addresses the API server, or the proxy on the way to it, is dialled. */
export class Dialled {
  #known: readonly AddressPort[] = []
  /** Called when another one comes. */
  changed: () => void = () => {}

  /** The same list while nothing of it changed. */
  get all(): readonly AddressPort[] {
    return this.#known
  }

  /** Ignores what is no address. */
  add(given: string, port: number): void {
    const address = canonicalIp(withoutZone(given))
    if (address === undefined) return
    const key = joinHostPort(address, port)
    if (this.#known.some(one => joinHostPort(one.address, one.port) === key)) return
    this.#known = [...this.#known, { address, port }].slice(-mostKnown)
    this.changed()
  }

  /** The peer of a request's connection, once there is one; before all that its name is resolved to. */
  watch(socket: Socket, port: number): void {
    if (!socket.connecting)
      this.add(socket.remoteAddress ?? '', socket.remotePort ?? port)
    // Of a lookup that failed there is no address, whatever its type says.
    else socket.on('lookup', (_error, address?: string) => this.add(address ?? '', port))
  }
}
