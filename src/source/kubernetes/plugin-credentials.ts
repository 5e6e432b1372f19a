import type { Agent, OutgoingHttpHeaders } from 'node:http'
import type { RequestOptions } from 'node:https'
import { isDeepStrictEqual } from 'node:util'
import type { KubeConfig, User } from '@kubernetes/client-node'
import type { Clock } from '../../util/clock.ts'
import { printable } from '../../util/printable.ts'
import type { Access, Credentials, TlsMaterial } from './credentials.ts'
import { execCredential, type ExecCredential } from './exec-plugin.ts'
import type { Part } from './kubeconfig.ts'
import { messageOf } from '../../util/usher-error.ts'

export interface PluginOptions {
  /** What the kubeconfig itself says: certificates, tokens, headers. */
  readonly own: Credentials
  readonly cluster: Part
  readonly user: Part
  readonly server: URL
  /** '' for none. */
  readonly proxyUrl: string
  readonly clock: Clock
}

/** How long a plugin's answer is used, in milliseconds, unless there is a 401. */
const longestAgeMs = 60_000
/** How long a plugin may take, in milliseconds. */
const longestRunMs = 60_000

/** Credentials of exec and auth-provider plugins, and connections through a proxy. */
export class PluginCredentials implements Credentials {
  readonly #options: PluginOptions
  #config: KubeConfig | undefined
  #asked: Promise<Access> | undefined
  /** Of an exec plugin; good until it expires, or the server says that it is not. */
  #credential: ExecCredential | undefined
  /** Ends the plugin that runs. */
  #run = new AbortController()
  #closed = false
  #last: Access | undefined
  #lastAt = -Infinity

  constructor(options: PluginOptions) {
    this.#options = options
  }

  async current(): Promise<Access> {
    const { clock } = this.#options
    if (this.#last !== undefined && clock.now() - this.#lastAt < longestAgeMs)
      return this.#last
    return this.#ask()
  }

  async refresh(): Promise<boolean> {
    const before = this.#last
    this.#credential = undefined
    await this.#options.own.refresh()
    return (await this.#ask()) !== before
  }

  close(): void {
    this.#closed = true
    this.#run.abort(new Error(`${this.#title}: closed`))
  }

  /** Only one at a time: a plugin that hangs is not started again beside itself. */
  #ask(): Promise<Access> {
    if (this.#asked === undefined && !this.#closed) this.#run = new AbortController()
    this.#asked ??= this.#apply().finally(() => (this.#asked = undefined))
    const { clock } = this.#options
    let timer: ReturnType<Clock['setTimeout']> | undefined
    const late = new Promise<never>((_, reject) => {
      const error = new Error(`${this.#title}: no answer within 60 s`)
      timer = clock.setTimeout(() => {
        reject(error)
        this.#run.abort(error)
      }, longestRunMs)
    })
    return Promise.race([this.#asked, late]).finally(() => clock.clearTimeout(timer))
  }

  get #title(): string {
    const { user, cluster } = this.#options
    return user.raw('exec') === undefined
      ? user.raw('auth-provider') === undefined
        ? `${cluster.title}.proxy-url`
        : `${user.title}.auth-provider`
      : `${user.title}.exec`
  }

  async #apply(): Promise<Access> {
    const own = await this.#options.own.current()
    const opts: RequestOptions & TlsMaterial = {}
    try {
      this.#config ??= await this.#load()
      await this.#config.applyToHTTPSOptions(opts)
    } catch (error) {
      const message = messageOf(error)
      throw new Error(`${this.#title}: ${printable(message.trim(), 300)}`, {
        cause: error,
      })
    }
    const tls: TlsMaterial = {
      ...own.tls,
      ...(opts.cert !== undefined && { cert: String(opts.cert) }),
      ...(opts.key !== undefined && { key: String(opts.key) }),
    }
    const { authorization, ...headers } = lowerCase(opts.headers)
    const before = this.#last
    const sameTls = isDeepStrictEqual(before?.tls, tls)
    const access: Access = {
      tls: before !== undefined && sameTls ? before.tls : tls,
      headers: { ...headers, ...own.headers, ...(authorization && { authorization }) },
      // client-node makes an agent for each call; one for each set of certificates will do.
      ...(this.#options.proxyUrl !== '' && {
        agent: before?.agent !== undefined && sameTls ? before.agent : agentOf(opts),
      }),
    }
    this.#lastAt = this.#options.clock.now()
    const same =
      before !== undefined && sameTls && isDeepStrictEqual(before.headers, access.headers)
    return (this.#last = same ? before : access)
  }

  async #load(): Promise<KubeConfig> {
    const { cluster, user, server, proxyUrl, own } = this.#options
    const { KubeConfig } = await import('@kubernetes/client-node')
    const { tls } = await own.current()
    const config = new KubeConfig()
    config.loadFromOptions({
      clusters: [
        {
          name: cluster.name,
          server: server.origin,
          // It refuses plain HTTP unless certificates are not to be verified.
          skipTLSVerify: tls.rejectUnauthorized === false || server.protocol === 'http:',
          ...(tls.ca !== undefined && { caData: base64(tls.ca) }),
          ...(tls.servername !== undefined && { tlsServerName: tls.servername }),
          ...(proxyUrl !== '' && { proxyUrl }),
        },
      ],
      users: [
        {
          name: user.name,
          ...(tls.cert !== undefined && { certData: base64(tls.cert) }),
          ...(tls.key !== undefined && { keyData: base64(tls.key) }),
          authProvider: user.raw('auth-provider'),
        } as User,
      ],
      contexts: [{ name: 'current', cluster: cluster.name, user: user.name }],
      currentContext: 'current',
    })
    if (user.raw('exec') !== undefined)
      config.addAuthenticator({
        isAuthProvider: () => true,
        applyAuthentication: (_, opts) => this.#applyExec(opts as RequestOptions),
      })
    return config
  }

  async #applyExec(opts: RequestOptions): Promise<void> {
    const { user } = this.#options
    const known = this.#credential
    const isGood = known !== undefined && known.expiresAt > Date.now()
    const { signal } = this.#run
    const now = isGood
      ? known
      : await execCredential(user.raw('exec'), user.directory, signal)
    this.#credential = now
    const { token, cert, key } = now
    if (cert !== '' && key !== '') Object.assign(opts, { cert, key })
    if (token !== '') opts.headers = { Authorization: `Bearer ${token}` }
  }
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')

const agentOf = (opts: RequestOptions): Agent => {
  if (typeof opts.agent === 'object') return opts.agent
  throw new Error('client-node gave no agent')
}

const lowerCase = (headers: RequestOptions['headers']): OutgoingHttpHeaders =>
  Object.fromEntries(
    Object.entries(headers ?? {}).map(([name, value]) => [
      name.toLowerCase(),
      value as string,
    ]),
  )
