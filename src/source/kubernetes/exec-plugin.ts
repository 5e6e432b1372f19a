import { spawn, type ChildProcess } from 'node:child_process'
import { isAbsolute, join, sep } from 'node:path'
import { parseJson, peek } from '../../util/json.ts'
import { errorOf } from '../../util/usher-error.ts'

/** What an exec plugin answered. */
export interface ExecCredential {
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
 * Runs the plugin of a kubeconfig's `exec` once. Own code, because client-node's run has no
 * end and no bound, and quotes what was printed, which may be a token. The plugin gets a
 * process group of its own, so that its children end with it when `signal` aborts.
 * A relative path starts at `directory`, as in client-go.
 */
export const execCredential = async (
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
        end(new Error('it printed more than 1 MiB, which is no ExecCredential'))
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
