import { createServer, type IncomingMessage, type Server } from 'node:http'
import { Turns } from '../util/turns.ts'
import type { Problem, ServiceHealthCheck, Snapshot } from '../model/snapshot.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { type IpFamily, wildcardOf, joinHostPort } from '../util/ip.ts'
import type { Log } from './log.ts'
import {
  ConnectionBound,
  boundAddress,
  clientTimeouts,
  closeServer,
} from './small-http-server.ts'

export interface ServiceHealthOptions {
  readonly clock: Clock
  readonly log: Log
  /** Whether what is wanted of the node is applied; see `Health`. */
  readonly proxyHealthy: () => boolean
  /**
   * Called when a port can't be listened on, not again for each further try: for an Event
   * FailedToStartServiceHealthcheck on the Service.
   */
  readonly failed?: (failure: ServiceHealthFailure) => void
  /**
   * The addresses of now to listen on, as --nodeport-addresses says. By default, and when
   * undefined, the wildcard of the family.
   */
  readonly addresses?: (family: IpFamily) => readonly string[] | undefined
  /** Servers at the same time; 512. Each costs a descriptor. */
  readonly mostServers?: number
}

export interface ServiceHealthFailure {
  readonly namespace: string
  readonly serviceName: string
  /** What could not be done, and why. */
  readonly message: string
}

const retryMs = 5000

interface Placed {
  readonly host: string
  readonly check: ServiceHealthCheck
}

interface Unplaced {
  readonly family: IpFamily
  readonly check: ServiceHealthCheck
}

interface Wanted {
  /** By address and Service. */
  readonly servers: ReadonlyMap<string, Placed>
  /** Those for which there is no address, by family and Service. */
  readonly nowhere: ReadonlyMap<string, Unplaced>
}

const wantedOf = (
  snapshots: readonly Snapshot[],
  addresses: Required<ServiceHealthOptions>['addresses'],
): Wanted => {
  const servers = new Map<string, Placed>()
  const nowhere = new Map<string, Unplaced>()
  for (const { family, healthChecks } of snapshots) {
    if (healthChecks.size === 0) continue
    const hosts = addresses(family) ?? [wildcardOf(family)]
    for (const [service, check] of healthChecks) {
      for (const host of hosts) servers.set(`${host} ${service}`, { host, check })
      if (hosts.length === 0) nowhere.set(`${family} ${service}`, { family, check })
    }
  }
  return { servers, nowhere }
}

/**
 * The HTTP servers behind healthCheckNodePorts, one for each Service and address. Made
 * equal to the wanted state after each sync, so that a load balancer never sees
 * endpoints that are not served yet. A port that is taken is tried again until it is free.
 */
export class ServiceHealthServers {
  readonly #options: ServiceHealthOptions
  readonly #most: number
  readonly #servers = new Map<string, ServiceHealthServer>()
  /** Keys whose failure has been reported. */
  readonly #reported = new Set<string>()
  /** Open connections of all servers. */
  readonly #connections = new ConnectionBound(mostOfAll)
  #nowhere: Wanted['nowhere'] = new Map()
  #tooMany: readonly ServiceHealthCheck[] = []
  readonly #turns = new Turns()
  #retry: Timer | undefined
  #closed = false

  constructor(options: ServiceHealthOptions) {
    this.#options = options
    this.#most = options.mostServers ?? 512
  }

  /** What cannot be served now. */
  get problems(): readonly Problem[] {
    const failing = [...this.#servers.values()].filter(({ error }) => error !== '')
    return [
      ...failing.map(server => problem(server.check, explain(server))),
      ...Array.from(this.#nowhere.values(), one => problem(one.check, noAddress(one))),
      ...this.#tooMany.map(check => problem(check, this.#limitText())),
    ]
  }

  /**
   * Opens, closes and updates servers until they are as the snapshots say. Resolves when
   * each new one has tried to listen once. Calls may overlap; the last one holds.
   */
  sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { addresses = () => undefined } = this.#options
    return this.#turns.take(() => this.#sync(wantedOf(snapshots, addresses)))
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#options.clock.clearTimeout(this.#retry)
    await this.#turns.take(async () => {
      await Promise.all([...this.#servers.values()].map(server => server.close()))
      this.#servers.clear()
    })
  }

  async #sync({ servers: wanted, nowhere }: Wanted): Promise<void> {
    if (this.#closed) return
    this.#logNowhere(nowhere)
    const closing: Promise<void>[] = []
    for (const [key, server] of this.#servers) {
      if (wanted.get(key)?.check.port === server.check.port) continue
      this.#servers.delete(key)
      this.#reported.delete(key)
      closing.push(server.close())
    }
    // Before others are opened: a port may pass from one Service to another in one sync.
    await Promise.all(closing)
    const tooMany: ServiceHealthCheck[] = []
    for (const [key, { host, check }] of wanted) {
      const server = this.#servers.get(key)
      if (server !== undefined) server.check = check
      else if (this.#servers.size >= this.#most) tooMany.push(check)
      else this.#servers.set(key, this.#newServer(host, check))
    }
    if (tooMany.length > 0 && this.#tooMany.length === 0)
      this.#options.log.error({ services: tooMany.length }, this.#limitText())
    this.#tooMany = tooMany
    await this.#listen()
  }

  #logNowhere(nowhere: Wanted['nowhere']): void {
    for (const [key, one] of nowhere) {
      if (this.#nowhere.has(key)) continue
      const { namespace, serviceName } = one.check
      this.#options.failed?.({ namespace, serviceName, message: noAddress(one) })
    }
    this.#nowhere = nowhere
  }

  #newServer(host: string, check: ServiceHealthCheck): ServiceHealthServer {
    const { proxyHealthy } = this.#options
    const connections = this.#connections
    return new ServiceHealthServer(host, check, { proxyHealthy, connections })
  }

  /** Tries each that does not listen, once. */
  async #listen(): Promise<void> {
    if (this.#closed) return
    const { clock } = this.#options
    clock.clearTimeout(this.#retry)
    this.#retry = undefined
    const silent = [...this.#servers].filter(([, { listening }]) => !listening)
    const tries = silent.map(async ([key, server]) => {
      const works = await server.listen()
      this.#logServer(key, server)
      return works
    })
    const results = await Promise.all(tries)
    if (results.every(Boolean)) return
    this.#retry = clock.setTimeout(
      () => void this.#turns.take(() => this.#listen()),
      retryMs,
    )
    this.#retry.unref?.()
  }

  #logServer(key: string, server: ServiceHealthServer): void {
    const { log, failed } = this.#options
    const { namespace, serviceName } = server.check
    const fields = { service: `${namespace}/${serviceName}`, address: server.address }
    if (server.listening) {
      this.#reported.delete(key)
      log.debug(fields, 'service health check is listening')
      return
    }
    if (this.#reported.has(key)) return
    this.#reported.add(key)
    const message = explain(server)
    log.error(
      { ...fields, error: server.error },
      'service health check cannot listen; retrying every 5 s',
    )
    failed?.({ namespace, serviceName, message })
  }

  #limitText(): string {
    return `Usher serves no more than ${this.#most} health checks on one node; this one's port is closed`
  }
}

const explain = ({ check, address, error }: ServiceHealthServer): string =>
  `the health check on node port ${check.port} cannot listen on ${address}: ${error}; trying again until the port is free`

const noAddress = ({ family, check }: Unplaced): string =>
  `the health check on node port ${check.port} is not served: no ${family} address of this host is in --nodeport-addresses`

const problem = (
  { namespace, serviceName }: ServiceHealthCheck,
  message: string,
): Problem => ({
  object: `Service ${namespace}/${serviceName}`,
  field: 'spec.healthCheckNodePort',
  message,
})

/** A load balancer has few probers; other clients must not cost descriptors. */
const mostConnections = 8
/** And of all servers together. */
const mostOfAll = 64

interface ServiceHealthServerDeps {
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
class ServiceHealthServer {
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
    return boundAddress(this.#server) || joinHostPort(this.#host, this.check.port)
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
    if (this.#server.listening) await closeServer(this.#server)
  }
}
