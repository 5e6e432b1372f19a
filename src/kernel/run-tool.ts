import { type StartedTool, startTool } from './start-tool.ts'

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
