import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificate } from './certificates.ts'
import { Connections } from './connections.ts'
import { Credentials } from './credentials.ts'
import { Faults } from './faults.ts'
import { handle } from './handler.ts'
import {
  type KubeconfigOptions,
  writeKubeconfig,
  writeServiceAccount,
} from './kubeconfig.ts'
import type { KubeObject } from './kube-object.ts'
import { Listener } from './listener.ts'
import { type Behaviour, defaultBehaviour } from './options.ts'
import { Reply } from './reply.ts'
import { RequestLog } from './request-log.ts'
import { type Resource, resourceNamed, resourceOf } from './resources.ts'
import { type Backup, Store } from './store.ts'
import { parsed } from './stored.ts'
import { targetOf } from './target.ts'
import type { Disturbance, Watch } from './watch.ts'

export interface ApiServerOptions extends Partial<Behaviour> {
  /** The version before the first object. Default 1000. */
  readonly firstVersion?: number
  /** Changes from which watches can resume. Default 10 000. */
  readonly historyLimit?: number
}

const host = '127.0.0.1'

/**
 * A Kubernetes API server for tests: real HTTPS with tokens and client certificates over
 * objects in memory, and switches for everything that goes wrong with real ones.
 */
export class ApiServer {
  /** May be changed at any time; requests that run keep to what was. */
  readonly behaviour: Behaviour
  /** Faults that wait for requests. */
  readonly faults = new Faults()
  readonly requests = new RequestLog()
  readonly #store: Store
  readonly #credentials = new Credentials()
  readonly #watches = new Set<Watch>()
  readonly #connections = new Connections()
  readonly #https: Server
  readonly #listener: Listener
  readonly #directory = mkdtempSync(join(tmpdir(), 'usher-api-'))
  #deaf = false

  private constructor({ firstVersion, historyLimit, ...behaviour }: ApiServerOptions) {
    this.behaviour = { ...defaultBehaviour(), ...behaviour }
    this.#store = new Store(firstVersion ?? 1000, historyLimit ?? 10_000)
    this.#https = httpsServer((request, response) => this.#answer(request, response))
    this.#https.on('secureConnection', tls => this.#connections.of(tls).secured(tls))
    this.#listener = new Listener(host, raw => {
      const connection = this.#connections.add(raw)
      if (this.#deaf) connection.freeze()
      else this.#https.emit('connection', raw)
    })
  }

  static async start(options: ApiServerOptions = {}): Promise<ApiServer> {
    const server = new ApiServer(options)
    await server.#listener.open()
    return server
  }

  get url(): string {
    return `https://${host}:${this.#listener.port}`
  }

  get token(): string {
    return this.#credentials.token
  }

  /** Of the newest object. */
  get version(): number {
    return this.#store.version
  }

  /** Plural names of what is being watched, one for each watch. */
  get watching(): string[] {
    return [...this.#watches].map(({ resource }) => resource.plural)
  }

  get connections(): number {
    return this.#connections.size
  }

  /** Creates or replaces an object, in `default` if it doesn't say; returns its version. */
  apply(object: KubeObject): number {
    const { namespaced } = resourceOf(object.apiVersion, object.kind)
    const metadata = namespaced
      ? { namespace: 'default', ...object.metadata }
      : object.metadata
    return this.#store.put({ ...object, metadata }).version
  }

  /** Deletes an object; false when there was none. */
  delete(resource: string, name: string, namespace = 'default'): boolean {
    return this.#store.delete(...whereIs(resource, namespace), name) !== undefined
  }

  get(resource: string, name: string, namespace = 'default'): KubeObject | undefined {
    const found = this.#store.get(...whereIs(resource, namespace), name)
    return found && parsed(found)
  }

  /** All objects of a collection: `events` are those that clients have sent. */
  objects(resource: string): KubeObject[] {
    return this.#store.list(resourceNamed(resource)).map(parsed)
  }

  /** Forgets the past: watches from before now, and further pages of lists, get 410. */
  compact(): void {
    this.#store.compact()
  }

  backup(): Backup {
    return this.#store.backup()
  }

  /** Comes back from a backup with its older versions: connections end, watches with them. */
  restore(backup: Backup): void {
    this.#connections.cutAll('rst')
    this.#store.restore(backup)
  }

  /** Does something to the watches that run (of one collection); says to how many. */
  disturb(how: Disturbance, resource?: string): number {
    const meant = [...this.#watches].filter(
      watch => resource === undefined || watch.resource.plural === resource,
    )
    for (const watch of meant) watch.disturb(how)
    return meant.length
  }

  /** All connections, new ones too, become half-open: no byte in, none out, no FIN. */
  vanish(): void {
    this.#deaf = true
    this.#connections.freezeAll()
  }

  /** New connections are refused, those there are reset. */
  shut(): void {
    this.#listener.close()
    this.#connections.cutAll('rst')
  }

  /** Is there again after `shut` (on the same port) and after `vanish`. */
  async reappear(): Promise<void> {
    if (this.#deaf) this.#connections.cutAll('rst')
    this.#deaf = false
    await this.#listener.open()
  }

  /** Another token; it is written to the files that were made. The old one is refused. */
  rotateToken(): string {
    const token = this.#credentials.rotate()
    writeServiceAccount(this.#access())
    return token
  }

  kubeconfig(options: KubeconfigOptions = {}): string {
    return writeKubeconfig(this.#access(), options)
  }

  /** A directory with token, ca.crt and namespace, as a Pod has. */
  serviceAccount(): string {
    return writeServiceAccount(this.#access())
  }

  /** Ends everything at once; nothing is left behind. */
  close(): void {
    this.shut()
    this.#https.close()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #access() {
    return { directory: this.#directory, url: this.url, token: this.token }
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    response.on('error', () => undefined)
    // It may have been cut while the request was being read.
    if (!this.#connections.has(request.socket)) return
    const target = targetOf(request.method ?? 'GET', request.url ?? '/')
    const answered = this.requests.add(target, request.headers['user-agent'] ?? '')
    const fault = this.faults.take(target)
    const connection = this.#connections.of(request.socket)
    const reply = new Reply(response, connection, fault, answered)
    const parts = {
      store: this.#store,
      behaviour: this.behaviour,
      credentials: this.#credentials,
      watches: this.#watches,
    }
    void handle(parts, { request, target, reply, fault })
  }
}

const whereIs = (plural: string, namespace: string): [Resource, string] => {
  const resource = resourceNamed(plural)
  return [resource, resource.namespaced ? namespace : '']
}

const httpsServer = (
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Server => {
  const server = createServer(
    {
      key: certificate('server.key'),
      cert: certificate('server.crt'),
      ca: certificate('ca.crt'),
      requestCert: true,
      // A stranger's certificate is answered with 401, as Kubernetes does.
      rejectUnauthorized: false,
      // Go's server lets idle connections stand; one closed as it is used fails a request.
      keepAliveTimeout: 120_000,
      requestTimeout: 0,
    },
    answer,
  )
  server.on('tlsClientError', () => undefined)
  return server
}
