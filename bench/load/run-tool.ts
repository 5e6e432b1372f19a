import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

const mostOutput = 64 * 1024

export interface ToolResult {
  readonly output: string
  /** Why it has failed, in a line; '' when it has not. */
  readonly complaint: string
}

/**
 * Runs a program to its end, and ends it after `timeoutMs`, or with this process.
 * Rejects when it is not installed.
 */
export const runTool = async (
  name: string,
  args: readonly string[],
  timeoutMs: number,
): Promise<ToolResult> => {
  if (findProgram(name) === undefined) throw new Error(`${name} is not installed`)
  // It must not outlive a generator that is killed (prctl(2), PR_SET_PDEATHSIG).
  const setpriv = findProgram('setpriv')
  const wrapped = setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL']
  const [command = '', ...rest] = [...wrapped, name, ...args]
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'] })
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill).once('SIGTERM', endByTerm)
  try {
    return await resultOf(child, timeoutMs)
  } finally {
    process.off('exit', kill).off('SIGTERM', endByTerm)
  }
}

/** The default way to end would not tell the listeners of 'exit'. */
const endByTerm = (): never => process.exit(143)

const resultOf = (child: ChildProcess, timeoutMs: number): Promise<ToolResult> =>
  new Promise((resolve, reject) => {
    const texts = { output: '', errors: '' }
    const keep = (into: keyof typeof texts) => (chunk: Buffer) => {
      texts[into] = `${texts[into]}${chunk.toString()}`.slice(-mostOutput)
    }
    child.stdout?.on('data', keep('output'))
    child.stderr?.on('data', keep('errors'))
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      child.kill('SIGKILL')
    }, timeoutMs)
    child.once('error', error => {
      clearTimeout(timer)
      reject(error)
    })
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      const { output, errors } = texts
      const message = `${errors}\n${output}`.split('\n').find(line => line.trim() !== '')
      const ended = message?.trim() ?? `ended with ${code ?? signal}`
      const failure = code === 0 ? '' : ended
      resolve({
        output,
        complaint: isLate ? `not done after ${timeoutMs} ms` : failure,
      })
    })
  })

const findProgram = (name: string): string | undefined =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .map(directory => join(directory, name))
    .find(isExecutable)

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
