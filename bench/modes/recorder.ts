import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'
import type { ToolCall } from './protocol.ts'

interface Recorded {
  readonly command: string
  readonly args: readonly string[]
  readonly input: string
}

/** What tools were run, and for how long those that were given an input. */
export interface Taken {
  readonly calls: readonly ToolCall[]
  readonly waitedMs: number
}

/** Runs tools and remembers how they were called. */
export class Recorder {
  #calls: Recorded[] = []
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
  async take(): Promise<Taken> {
    const { calls, waitedMs } = { calls: this.#calls, waitedMs: this.#waitedMs }
    this.clear()
    return { calls: await Promise.all(calls.map(call => this.#write(call))), waitedMs }
  }

  clear(): void {
    this.#calls = []
    this.#waitedMs = 0
  }

  async #write({ command, args, input }: Recorded): Promise<ToolCall> {
    if (input === '') return { command, args, input: '', lines: 0 }
    this.#files += 1
    const file = join(this.#folder, `input-${this.#files}`)
    await writeFile(file, input)
    return { command, args, input: file, lines: linesOf(input) }
  }
}

/** Lines that say something to a tool. */
export const linesOf = (input: string): number =>
  input.split('\n').filter(line => line !== '' && !line.startsWith('#')).length
