import { spawn, type ChildProcess } from 'node:child_process'
import type { RequestOptions } from 'node:https'
import { isAbsolute, join, sep } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { KubeConfig, User } from '@kubernetes/client-node'
import { type Clock, orAborted } from '../../util/clock.ts'
import { printable, parseJson, peek } from '../../util/printable.ts'
import { errorOf, messageOf } from '../../util/usher-error.ts'
import type { Access, Credentials } from './credentials.ts'
import type { Part } from './kubeconfig.ts'

interface PluginOptions {
  /** What the kubeconfig itself says: certificates, tokens, headers. */
  readonly own: Credentials
  readonly user: Part
  readonly clock: Clock
}

/** How long a plugin's answer is used, in milliseconds, unless there is a 401. */
const longestAgeMs = 60_000
/** How long a plugin may take, in milliseconds. */
const longestRunMs = 60_000

/** Credentials of exec plugins and auth-providers. */
export class PluginCredentials implements Credentials {
  readonly #options: PluginOptions
  #asked: Promise<Access> | undefined
  /** Of an auth-provider: tokens that it has renewed are in there. */
  #provider: KubeConfig | undefined
  /** Good until it expires, or the server says that it is not. */
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
    this.#run.abort(new Error('closed'))
  }

  /** Only one at a time: a plugin that hangs is not started again beside itself. */
  #ask(): Promise<Access> {
    this.#asked ??= this.#apply().finally(() => (this.#asked = undefined))
    return this.#asked
  }

  async #apply(): Promise<Access> {
    const own = await this.#options.own.current()
    const known = this.#credential
    const isGood = known !== undefined && known.expiresAt > Date.now()
    const { token, cert, key } = (this.#credential = isGood
      ? known
      : await this.#askPlugin())
    const access: Access = {
      tls: { ...own.tls, ...(cert !== '' && key !== '' && { cert, key }) },
      headers: {
        ...own.headers,
        ...(token !== '' && { authorization: `Bearer ${token}` }),
      },
    }
    this.#lastAt = this.#options.clock.now()
    if (!isDeepStrictEqual(access, this.#last)) this.#last = access
    return this.#last ?? access
  }

  async #askProvider(): Promise<ExecCredential> {
    this.#provider ??= await providerConfig(this.#options.user)
    const request: RequestOptions = {}
    await this.#provider.applyToHTTPSOptions(request)
    const headers = new Headers(request.headers as Record<string, string>)
    const token = headers.get('authorization')?.replace(/^Bearer /, '') ?? ''
    if (token === '') throw new Error('it returned no token')
    return { token, cert: '', key: '', expiresAt: 0 }
  }

  async #askPlugin(): Promise<ExecCredential> {
    const { clock, user } = this.#options
    if (!this.#closed) this.#run = new AbortController()
    const run = this.#run
    const late = () => run.abort(new Error('no answer within 60 s'))
    const timer = clock.setTimeout(late, longestRunMs)
    try {
      return user.raw('exec') === undefined
        ? await orAborted(this.#askProvider(), run.signal)
        : await execCredential(user.raw('exec'), user.directory, run.signal)
    } catch (error) {
      const kind = user.raw('exec') === undefined ? 'auth-provider' : 'exec'
      const reason = printable(messageOf(error).trim(), 300)
      throw new Error(`${user.title}.${kind}: ${reason}`, { cause: error })
    } finally {
      clock.clearTimeout(timer)
    }
  }
}

/** The library, 75 MB in memory, is loaded only for this. */
const providerConfig = async (user: Part): Promise<KubeConfig> => {
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  const authProvider: unknown = user.raw('auth-provider')
  config.loadFromOptions({
    clusters: [{ name: 'c', server: 'https://127.0.0.1' }],
    users: [{ name: 'u', authProvider } as User],
    contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
    currentContext: 'x',
  })
  return config
}

/** What an exec plugin or an auth-provider answered. */
interface ExecCredential {
  /** '' for none, as the other texts. */
  readonly token: string
  readonly cert: string
  readonly key: string
  /** Epoch milliseconds; 0 when it did not say. */
  readonly expiresAt: number
}

/** Bytes of what a plugin may say. */
const mostOutput = 1024 * 1024
const mostErrors = 4096

/**
 * Runs the plugin of a kubeconfig's `exec` once. It has an end and a bound, and what was
 * printed, which may be a token, is not quoted. The plugin gets a
 * process group of its own, so that its children end with it when `signal` aborts.
 * A relative path starts at `directory`, as in client-go.
 */
const execCredential = async (
  exec: unknown,
  directory: string,
  signal: AbortSignal,
): Promise<ExecCredential> => {
  signal.throwIfAborted()
  const command = peek(exec, 'command')
  if (typeof command !== 'string' || command === '')
    throw new Error('command is missing; give a program')
  const args = peek(exec, 'args')
  const child = spawn(commandPath(command, directory), texts(args), {
    env: { ...process.env, ...environment(exec) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  return credentialOf(await outputOf(child, signal))
}

const commandPath = (command: string, directory: string): string =>
  ['/', sep].some(one => command.includes(one)) && !isAbsolute(command)
    ? join(directory, command)
    : command

const texts = (list: unknown): string[] =>
  Array.isArray(list) ? (list as unknown[]).map(String) : []

/** KUBERNETES_EXEC_INFO says which version to answer in. */
const environment = (exec: unknown): Record<string, string> => {
  const info = {
    apiVersion: peek(exec, 'apiVersion') ?? 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    spec: { interactive: false },
  }
  const env = peek(exec, 'env')
  const own = (Array.isArray(env) ? (env as unknown[]) : []).map(pair =>
    texts([peek(pair, 'name'), peek(pair, 'value') ?? '']),
  )
  return {
    KUBERNETES_EXEC_INFO: JSON.stringify(info),
    ...(Object.fromEntries(own) as object),
  }
}

const outputOf = (child: ChildProcess, signal: AbortSignal): Promise<string> =>
  new Promise((resolve, reject) => {
    const output: Buffer[] = []
    let size = 0
    let errors = ''
    const end = (error: Error): void => {
      killGroup(child)
      reject(error)
    }
    const aborted = (): void => end(errorOf(signal.reason))
    child.once('error', end)
    child.stdout?.on('data', (part: Buffer) => {
      output.push(part)
      if ((size += part.length) > mostOutput)
        end(new Error('it printed more than 1 MiB, too much for an ExecCredential'))
    })
    child.stderr?.on('data', (part: Buffer) => {
      errors = `${errors}${part.toString('utf8')}`.slice(0, mostErrors)
    })
    child.once('close', (code, killedBy) => {
      signal.removeEventListener('abort', aborted)
      if (code === 0) return resolve(Buffer.concat(output).toString('utf8'))
      reject(new Error(`it ended with ${killedBy ?? code}: ${errors.trim()}`))
    })
    if (signal.aborted) aborted()
    else signal.addEventListener('abort', aborted)
  })

const killGroup = (child: ChildProcess): void => {
  child.stdout?.destroy()
  child.stderr?.destroy()
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

const credentialOf = (output: string): ExecCredential => {
  const status = peek(parseJson(output), 'status')
  const text = (field: string): string => {
    const value = peek(status, field)
    return typeof value === 'string' ? value : ''
  }
  const token = text('token')
  const cert = text('clientCertificateData')
  const key = text('clientKeyData')
  if (token === '' && (cert === '' || key === ''))
    throw new Error(
      'it printed no ExecCredential with status.token, or status.clientCertificateData and status.clientKeyData',
    )
  return { token, cert, key, expiresAt: Date.parse(text('expirationTimestamp')) || 0 }
}
