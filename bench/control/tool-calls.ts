import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { open as openFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { type RunTool, runTool, toolEnv } from '../../src/kernel/run-tool.ts'

/** A tool that was run. */
export interface ToolCall {
  readonly command: string
  readonly args: readonly string[]
  /** The file with what it read; '' when that was nothing. */
  readonly input: string
  /** Those that say something, without comments and empty ones. */
  readonly lines: number
}

/** Runs tools, and remembers how they were called and how long those took that had an input. */
export class Recorder {
  #calls: Omit<ToolCall, 'lines'>[] = []
  #files = 0
  #waitedMs = 0
  readonly #folder: string

  /** @param folder - where inputs are written to */
  constructor(folder: string) {
    this.#folder = folder
  }

  readonly run: RunTool = async (command, args, options) => {
    const { input = '' } = options ?? {}
    this.#calls.push({ command, args, input })
    const startedAt = performance.now()
    try {
      return await runTool(command, args, options)
    } finally {
      if (input !== '') this.#waitedMs += performance.now() - startedAt
    }
  }

  /** The calls since the last time, with their inputs as files. */
  async take() {
    const [calls, waitedMs] = [this.#calls, this.#waitedMs]
    this.clear()
    return { calls: await Promise.all(calls.map(call => this.#kept(call))), waitedMs }
  }

  clear(): void {
    this.#calls = []
    this.#waitedMs = 0
  }

  async #kept({ command, args, input }: Omit<ToolCall, 'lines'>): Promise<ToolCall> {
    if (input === '') return { command, args, input, lines: 0 }
    const file = join(this.#folder, `input-${(this.#files += 1)}`)
    await writeFile(file, input)
    return { command, args, input: file, lines: linesOf(input) }
  }
}

/** Lines that say something to a tool. */
export const linesOf = (input: string): number =>
  input.split('\n').filter(line => line !== '' && !line.startsWith('#')).length

/** From a tool's start to its end, and the most memory that it was seen to have. Rejects when it fails. */
export const replay = async ({ command, args, input }: ToolCall) => {
  const file = await openFile(input === '' ? '/dev/null' : input)
  try {
    const startedAt = performance.now()
    const child = spawn(command, args, {
      env: toolEnv(),
      stdio: [file.fd, 'ignore', 'inherit'],
    })
    let peakRssBytes = 0
    const look = (): void =>
      void (peakRssBytes = Math.max(peakRssBytes, mostOf(child.pid)))
    const timer = setInterval(look, lookEveryMs)
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', resolve)
    }).finally(() => clearInterval(timer))
    // What was tried only need not succeed.
    if (code !== 0 && input !== '')
      throw new Error(`${command}, run once more: exit code ${code}`)
    return { ms: performance.now() - startedAt, peakRssBytes }
  } finally {
    await file.close()
  }
}

/** What a tool takes in its last 5 ms may be missed; it has it all before the kernel does its part. */
const lookEveryMs = 5

/** The most memory that a process has had; 0 when it has ended. */
const mostOf = (pid: number | undefined): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}
