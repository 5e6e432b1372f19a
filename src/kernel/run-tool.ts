import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, unlinkSync, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { isOutOfResources } from '../util/usher-error.ts'
import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

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

/**
 * As RunTool, for programs that write more than should be held at once: each line of the
 * standard output goes to `line`, and the program waits while others have their turn.
 */
export type StreamTool = (
  command: string,
  args: readonly string[],
  line: (line: string) => void,
  options?: ToolOptions,
) => Promise<void>

/** `timeout`: it took too long, was killed, or there was nothing to start it with. */
export type ToolFailure = 'missing' | 'not permitted' | 'timeout' | 'failed'

/** Why a tool did not do its work; the message names tool, call and first line. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  /** What has a code is logged without its stack. */
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

/** A table of 100 000 rules has 15 MB. */
const mostOutput = 128 * 1024 * 1024

export const runTool: RunTool = (command, args, options) =>
  outputOf(startTool(command, args, options))

export const streamTool: StreamTool = async (command, args, line, options) => {
  const { stdout, ended } = startTool(command, args, options)
  // When the output is cut off `ended` has the reason, and rejects first.
  await Promise.all([ended, stdout && readLines(stdout, line)])
}

/**
 * The tools by which one owner changes the host. When its turn is over none of them may go
 * on: a restore that waits for a lock would write after the next owner has.
 */
export class StoppableTools {
  readonly #running = new Set<StartedTool>()
  #isStopped = false

  /** As `runTool`; rejects at once while stopped. */
  readonly run: RunTool = async (command, args, options) => {
    if (this.#isStopped) {
      const reason = 'not started, because Usher is ending'
      throw new ToolError(`${command}: ${reason}`, 'timeout', '')
    }
    const tool = startTool(command, args, options)
    this.#running.add(tool)
    void tool.exited.then(() => this.#running.delete(tool))
    return outputOf(tool)
  }

  /** Kills (SIGKILL) what runs, and starts no more; resolves when all of it has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    const running = [...this.#running]
    for (const { kill } of running) kill()
    await Promise.all(running.map(({ exited }) => exited))
  }

  /** After `stop`: for what is to be done at the end. */
  allow(): void {
    this.#isStopped = false
  }
}

const outputOf = async ({ stdout, ended, kill }: StartedTool): Promise<string> => {
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

/** Milliseconds for which lines may hold the event loop. */
const sliceMs = 3
/** What a line has beyond this is dropped; no tool writes longer ones. */
const longestLine = 64 * 1024

const readLines = async (
  stdout: Readable,
  line: (line: string) => void,
): Promise<void> => {
  let rest = ''
  let started = performance.now()
  for await (const chunk of stdout.setEncoding('utf8')) {
    const lines = (rest + String(chunk)).split('\n')
    rest = (lines.pop() ?? '').slice(0, longestLine)
    for (const one of lines) line(one)
    if (performance.now() - started < sliceMs) continue
    await setImmediate()
    started = performance.now()
  }
  if (rest !== '') line(rest)
}

/** A program of the system's that runs. */
interface StartedTool {
  /** Undefined when there was no descriptor to read it by; `ended` rejects then. */
  readonly stdout: Readable | undefined
  /** Rejects (ToolError) when it can't be started, fails, or takes too long. */
  readonly ended: Promise<void>
  /** Resolves when the process has ended, or could not be started. */
  readonly exited: Promise<void>
  readonly kill: () => void
}

/** Without a descriptor for its pipes, Node gives a child that has none. */
type Child = Pick<ChildProcess, 'once' | 'kill'> &
  Partial<Pick<ChildProcess, 'stdin' | 'stdout' | 'stderr'>>

const defaultTimeoutMs = 30_000
/** 100 000 lines of `ip -batch` that fail have less. */
const mostErrors = 16 * 1024 * 1024

/** The Debian package a tool is in, where it is not the tool's own name. */
const packages: Readonly<Record<string, string>> = {
  nft: 'nftables',
  ip: 'iproute2',
  ss: 'iproute2',
  nsenter: 'util-linux',
}

const startTool = (
  command: string,
  args: readonly string[],
  { input = '', timeoutMs = defaultTimeoutMs }: ToolOptions = {},
): StartedTool => {
  let child: Child
  try {
    child = spawnTool(command, args, input)
  } catch (error) {
    // Node throws what it has no event for: E2BIG, ENOMEM.
    const ended = Promise.reject(notStarted(command, error as Error))
    return { stdout: undefined, ended, exited: Promise.resolve(), kill: () => {} }
  }
  const call = [command, ...args].join(' ').slice(0, 200)
  let stderr = ''
  const killed = (reason: string) =>
    new ToolError(`${call}: ${reason}`, 'timeout', stderr)
  const exited = new Promise<void>(resolve => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  const ended = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(killed(`ended after ${timeoutMs} ms`))
      abandon(child)
    }, timeoutMs)
    child.once('error', error => {
      clearTimeout(timer)
      reject(notStarted(command, error))
    })
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      if (code === 0) resolve()
      else if (signal !== null) reject(killed(`killed by ${signal}`))
      else reject(exitError(call, code, stderr))
    })
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < mostErrors) stderr += text
  })
  return { stdout: child.stdout ?? undefined, ended, exited, kill: () => abandon(child) }
}

const spawnTool = (command: string, args: readonly string[], input: string): Child => {
  const file = inputFile(input)
  try {
    const child: Child = spawn(command, [...args], {
      env: toolEnv(),
      stdio: [file ?? 'pipe', 'pipe', 'pipe'],
    })
    // EPIPE, when it ends before it has read all: its exit code is what counts.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
    return child
  } finally {
    if (file !== undefined) closeSync(file)
  }
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
 * For messages in English, so that they can be searched for and matched, and with the
 * folders where Debian has tools, which the PATH of an ordinary user leaves out.
 */
export const toolEnv = (): NodeJS.ProcessEnv => ({
  ...process.env,
  LC_ALL: 'C',
  PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`,
})

const notStarted = (command: string, error: NodeJS.ErrnoException): ToolError => {
  if (error.code !== 'ENOENT')
    return new ToolError(
      `${command}: can't be started: ${error.message}`,
      isOutOfResources(error.code) || error.code === 'EAGAIN' ? 'timeout' : 'failed',
      '',
    )
  const packageName =
    packages[command] ?? (/^ip6?tables/.test(command) ? 'iptables' : command)
  const text = `${command}: not found; install it (Debian package ${packageName})`
  return new ToolError(text, 'missing', '')
}

const exitError = (call: string, code: number | null, stderr: string): ToolError => {
  const [first = ''] = stderr.trim().split('\n')
  const denied = /permission denied|operation not permitted|you must be root/i
  const failure = denied.test(stderr) ? 'not permitted' : 'failed'
  const text = `${call}: ${first === '' ? 'no error message' : first} (exit code ${code})`
  return new ToolError(text, failure, stderr)
}

/** What tools print of a kernel (or a network namespace) that does not have the thing at all. */
const unsupported = new RegExp(
  [
    'protocol not (?:supported|available)',
    'address family not supported',
    '(?:table|chain) does not exist',
    'cannot open session to kernel',
    "can(?:no|')t initialize",
    // A kernel without nf_tables, in the words of iptables-nft and of nft.
    'could not fetch rule set generation id: invalid argument',
    'cache initialization failed: invalid argument',
    // One that has nfnetlink, but no ip_set, in the words of ipset.
    'kernel error received: invalid argument',
  ].join('|'),
  'i',
)

/** Whether a tool failed because the kernel has nothing of the kind it manages. */
export const isUnsupported = (error: unknown): boolean =>
  error instanceof ToolError && unsupported.test(error.stderr)

/** One that is never on a disk comes first; a container may have it alone to write to. */
const folders = ['/dev/shm', tmpdir()]

/**
 * A descriptor from which a tool can read all of `input`, of a file without a name. By a pipe a
 * tool would take what has come through by the time that Usher is killed for the whole, and half
 * of a transaction may be one, too; and nft before 1.0.6 opens its input by name, which the kind of
 * pipe that Node makes is not for. Undefined for none, and where no file can be made: a pipe has
 * to do. The caller closes it.
 */
const inputFile = (input: string): number | undefined => {
  if (input === '') return undefined
  for (const folder of folders) {
    const file = tryWrite(folder, Buffer.from(input))
    if (file !== undefined) return file
  }
  return undefined
}

const tryWrite = (folder: string, input: Buffer): number | undefined => {
  const path = join(folder, `usher-${process.pid}-${randomBytes(6).toString('hex')}`)
  let file: number | undefined
  try {
    file = openSync(path, 'wx+', 0o600)
    unlinkSync(path)
    // With a position, so that who reads it begins at the start.
    if (writeSync(file, input, 0, input.length, 0) === input.length) return file
  } catch {
    // There is no such folder, no room in it, or nothing may be written.
  }
  if (file !== undefined) closeSync(file)
  return undefined
}
