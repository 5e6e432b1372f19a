import { createServer } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { ServiceHealthCheck } from '../model/snapshot.ts'
import { joinHostPort } from '../util/ip.ts'
import { clientTimeouts } from './small-http-server.ts'
import { ConnectionBound } from './connection-bound.ts'

/** A load balancer has few probers; other clients must not cost descriptors. */
const mostConnections = 8
/** And of all servers together. */
export const mostOfAll = 64

export interface ServiceHealthServerDeps {
  /** Whether what is wanted of the node is applied; see `Health`. */
  readonly proxyHealthy: () => boolean
  /** Shared by all servers. */
  readonly connections: ConnectionBound
}

/** As kube-proxy prints it: tabs, and no newline at the end. */
const payload = (
  { namespace, serviceName, localReady }: ServiceHealthCheck,
  proxyHealthy: boolean,
): string =>
  JSON.stringify(
    {
      service: { namespace, name: serviceName },
      localEndpoints: localReady,
      serviceProxyHealthy: proxyHealthy,
    },
    undefined,
    '\t',
  )

/**
 * Whether a connection is closed after its answer: what follows a request with a body may
 * be of any length, and idle connections to many Services must not keep probers out.
 */
const isLast = ({ method }: IncomingMessage, open: number): boolean =>
  (method !== 'GET' && method !== 'HEAD') || open > mostOfAll / 2

/**
 * One Service's healthCheckNodePort on one address, or all of a family: says whether a load
 * balancer should send its traffic to this node. Any path and method gets the same answer.
 */
export class ServiceHealthServer {
  /** What to answer; replaced when the count changes. */
  check: ServiceHealthCheck
  readonly #host: string
  readonly #server: Server
  #error = ''
  #closed = false

  constructor(host: string, check: ServiceHealthCheck, deps: ServiceHealthServerDeps) {
    this.#host = host
    this.check = check
    this.#server = createServer(clientTimeouts, (request, response) => {
      const healthy = deps.proxyHealthy()
      const { localReady } = this.check
      const body = payload(this.check, healthy)
      response.writeHead(localReady > 0 && healthy ? 200 : 503, {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(body),
        'X-Content-Type-Options': 'nosniff',
        'X-Load-Balancing-Endpoint-Weight': localReady,
        ...(isLast(request, deps.connections.open) ? { Connection: 'close' } : {}),
      })
      response.end(body)
    })
    const own = new ConnectionBound(mostConnections)
    this.#server.on('connection', socket => {
      own.admit(socket)
      deps.connections.admit(socket)
      // Idle ones give way, so that the next probe gets in.
      if (own.open > mostConnections / 2) this.#server.closeIdleConnections()
    })
    // Of a listening server it is a failed accept (EMFILE): the prober tries again.
    this.#server.on('error', () => {})
  }

  get listening(): boolean {
    return this.#server.listening
  }

  /** Why it does not listen; '' when it does, or has not tried. */
  get error(): string {
    return this.#error
  }

  /** `host:port` that is listened on, or is to be. */
  get address(): string {
    const bound = this.#server.address()
    return bound === null || typeof bound === 'string'
      ? joinHostPort(this.#host, this.check.port)
      : joinHostPort(bound.address, bound.port)
  }

  /** Tries once; answers whether it listens now. */
  async listen(): Promise<boolean> {
    if (this.#closed || this.#server.listening) return this.listening
    const server = this.#server
    this.#error = await new Promise<string>(resolve => {
      const settle = (error?: NodeJS.ErrnoException): void => {
        server.off('listening', settle)
        server.off('error', settle)
        resolve(error === undefined ? '' : (error.code ?? error.message))
      }
      server.once('listening', settle)
      server.once('error', settle)
      server.listen({
        host: this.#host,
        port: this.check.port,
        // The other family is a server of its own, with a count of its own.
        ipv6Only: this.#host.includes(':'),
      })
    })
    return this.listening
  }

  /** Resolves when the port is free. */
  async close(): Promise<void> {
    this.#closed = true
    if (!this.#server.listening) return
    const ended = new Promise<void>(resolve => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await ended
  }
}
