import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'

export interface ToolOptions {
  /** For its standard input; nothing by default. */
  readonly input?: string
  /** Milliseconds after which it is killed, and waited for no longer; by default 30 s. */
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

/** `timeout`: it took too long, or something else killed it. */
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

export const runTool: RunTool = (command, args, options) =>
  outputOf(startTool(command, args, options))

/** Reads what it writes to its end. Rejects as RunTool does. */
export const outputOf = async ({ stdout, ended, kill }: StartedTool): Promise<string> => {
  const out: Buffer[] = []
  let size = 0
  stdout?.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > mostOutput) kill()
    else out.push(chunk)
  })
  await ended
  return Buffer.concat(out).toString()
}

/** A program of the system's that runs. */
export interface StartedTool {
  /** Undefined when there was no descriptor to read it by; `ended` rejects then. */
  readonly stdout: Readable | undefined
  /** Rejects (ToolError) when it can't be started, fails, or takes too long. */
  readonly ended: Promise<void>
  /** Resolves when there is no such process any more, or never was. */
  readonly exited: Promise<void>
  readonly kill: () => void
}

/** Without a descriptor for its pipes, Node gives a child that has none. */
type Child = Partial<ChildProcessByStdio<Writable, Readable, Readable>> &
  Pick<ChildProcessByStdio<Writable, Readable, Readable>, 'once' | 'kill'>

const defaultTimeoutMs = 30_000
/** 100 000 lines of `ip -batch` that fail have less. */
const mostErrors = 16 * 1024 * 1024

/** The Debian package a tool is in, where it is not the tool's own name. */
const packages: Readonly<Record<string, string>> = {
  nft: 'nftables',
  ip: 'iproute2',
}

export const startTool = (
  command: string,
  args: readonly string[],
  { input = '', timeoutMs = defaultTimeoutMs }: ToolOptions = {},
): StartedTool => {
  const child: Child = spawn(command, [...args], { env: toolEnv(), stdio: 'pipe' })
  let stderr = ''
  const exited = new Promise<void>(resolve => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  const ended = new Promise<void>((resolve, reject) => {
    const fail = (why: string, end: Pick<End, 'code' | 'signal'>): void =>
      reject(failed([command, ...args].join(' ').slice(0, 200), { ...end, why, stderr }))
    const timer = setTimeout(() => {
      fail(`ended after ${timeoutMs} ms`, { code: null, signal: 'SIGKILL' })
      abandon(child)
    }, timeoutMs)
    child.once('error', error => {
      clearTimeout(timer)
      reject(notStarted(command, error))
    })
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      if (code === 0) resolve()
      else fail(`killed by ${signal}`, { code, signal })
    })
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < mostErrors) stderr += text
  })
  // It may end before it has read all; its exit code says what is to be said.
  child.stdin?.on('error', () => {})
  child.stdin?.end(input)
  return { stdout: child.stdout, ended, exited, kill: () => abandon(child) }
}

/**
 * Not waited for: a script that is killed leaves its own children behind, which hold the
 * pipes, and what hangs in the kernel can't be killed at all.
 */
const abandon = (child: Child): void => {
  child.kill('SIGKILL')
  child.stdin?.destroy()
  child.stdout?.destroy()
  child.stderr?.destroy()
}

/**
 * For messages in English, so that they can be looked up and told apart, and with the
 * folders where Debian has tools, which the PATH of an ordinary user leaves out.
 */
export const toolEnv = (): NodeJS.ProcessEnv => ({
  ...process.env,
  LC_ALL: 'C',
  PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
})

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
  /** In words, where a signal ended it. */
  readonly why: string
  readonly stderr: string
}

const failed = (call: string, { code, signal, why, stderr }: End): ToolError => {
  if (signal !== null) return new ToolError(`${call}: ${why}`, 'timeout', stderr)
  const [first = ''] = stderr.trim().split('\n')
  const denied = /permission denied|operation not permitted|you must be root/i
  const failure = denied.test(stderr) ? 'not permitted' : 'failed'
  const text = `${call}: ${first === '' ? 'no word why' : first} (exit code ${code})`
  return new ToolError(text, failure, stderr)
}
