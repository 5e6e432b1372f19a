import { spawn } from 'node:child_process'

export interface ToolOptions {
  /** For its standard input; nothing by default. */
  readonly input?: string
  /** Milliseconds after which it is killed; by default 30 s. */
  readonly timeoutMs?: number
}

/**
 * Runs a program of the system's and gives its standard output. Rejects with ToolError
 * when it can't be started, ends with another code than 0, or takes too long.
 */
export type RunTool = (
  command: string,
  args: readonly string[],
  options?: ToolOptions,
) => Promise<string>

export type ToolFailure = 'missing' | 'not permitted' | 'timeout' | 'failed'

/** Why a tool did not do what it was told; the message names tool, call and first line. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  /** Spares the log a stack that says nothing. */
  readonly code = 'ERR_TOOL'
  readonly failure: ToolFailure
  /** What it wrote to its standard error, whole. */
  readonly stderr: string

  constructor(message: string, failure: ToolFailure, stderr: string) {
    super(message)
    this.failure = failure
    this.stderr = stderr
  }
}

/** No tool is asked for more; a table of 100 000 rules has 15 MB. */
const mostOutput = 128 * 1024 * 1024
const defaultTimeoutMs = 30_000

/** The Debian package a tool is in, where it is not the tool's own name. */
const packages: Readonly<Record<string, string>> = {
  nft: 'nftables',
  ip: 'iproute2',
}

export const runTool: RunTool = (
  command,
  args,
  { input = '', timeoutMs = defaultTimeoutMs } = {},
) =>
  new Promise((resolve, reject) => {
    // Messages in English, so that they can be looked up and told apart.
    const env = { ...process.env, LC_ALL: 'C', PATH: toolPath() }
    const child = spawn(command, [...args], { env, stdio: 'pipe', timeout: timeoutMs })
    const out: Buffer[] = []
    const err: Buffer[] = []
    let size = 0
    const keep = (list: Buffer[]) => (chunk: Buffer) => {
      size += chunk.length
      if (size > mostOutput) child.kill('SIGKILL')
      else list.push(chunk)
    }
    child.stdout.on('data', keep(out))
    child.stderr.on('data', keep(err))
    // It may end before it has read all; its exit code says what is to be said.
    child.stdin.on('error', () => {})
    child.once('error', error => reject(notStarted(command, error)))
    child.once('close', (code, signal) => {
      const stderr = Buffer.concat(err).toString()
      if (code === 0) resolve(Buffer.concat(out).toString())
      else reject(failed(callText(command, args), stderr, { code, signal, timeoutMs }))
    })
    child.stdin.end(input)
  })

/** Where Debian has them, which the PATH of an ordinary user leaves out. */
const toolPath = (): string => `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`

const callText = (command: string, args: readonly string[]): string =>
  [command, ...args].join(' ').slice(0, 200)

const notStarted = (command: string, error: NodeJS.ErrnoException): ToolError => {
  if (error.code !== 'ENOENT')
    return new ToolError(`${command}: can't be started: ${error.message}`, 'failed', '')
  const packageName =
    packages[command] ?? (/^ip6?tables/.test(command) ? 'iptables' : command)
  const text = `${command}: not found; install it (Debian package ${packageName})`
  return new ToolError(text, 'missing', '')
}

interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly timeoutMs: number
}

const failed = (call: string, stderr: string, end: End): ToolError => {
  const { code, signal, timeoutMs } = end
  const [first = ''] = stderr.trim().split('\n')
  if (signal !== null)
    return new ToolError(`${call}: ended after ${timeoutMs} ms`, 'timeout', stderr)
  const denied = /permission denied|operation not permitted|you must be root/i
  const failure = denied.test(stderr) ? 'not permitted' : 'failed'
  const text = `${call}: ${first === '' ? 'no word why' : first} (exit code ${code})`
  return new ToolError(text, failure, stderr)
}
