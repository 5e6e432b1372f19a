import { spawn } from 'node:child_process'
import { setImmediate } from 'node:timers/promises'
import { ToolError, type ToolOptions } from './run-tool.ts'

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

/** Milliseconds for which lines may hold the event loop. */
const sliceMs = 3
/** No line of a tool's is longer; what goes on beyond is not looked at. */
const longestLine = 64 * 1024
const mostErrors = 64 * 1024

export const streamTool: StreamTool = async (command, args, line, options = {}) => {
  const { input = '', timeoutMs = 30_000 } = options
  const path = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`
  const env = { ...process.env, LC_ALL: 'C', PATH: path }
  const child = spawn(command, [...args], { env, stdio: 'pipe', timeout: timeoutMs })
  const ended = new Promise<End>((resolve, reject) => {
    child.once('error', error => reject(notStarted(command, error)))
    child.once('close', (code, signal) => resolve({ code, signal, timeoutMs }))
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (stderr.length < mostErrors) stderr += text
  })
  // It may end before it has read all; its exit code says what is to be said.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [end] = await Promise.all([ended, readLines(child.stdout, line)])
  if (end.code !== 0) throw failed([command, ...args].join(' '), stderr, end)
}

const readLines = async (
  stdout: NodeJS.ReadableStream,
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

const notStarted = (command: string, error: NodeJS.ErrnoException): ToolError =>
  error.code === 'ENOENT'
    ? new ToolError(
        `${command}: not found; install it (Debian package ${command})`,
        'missing',
        '',
      )
    : new ToolError(`${command}: can't be started: ${error.message}`, 'failed', '')

interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly timeoutMs: number
}

const failed = (call: string, stderr: string, end: End): ToolError => {
  const shown = call.slice(0, 200)
  if (end.signal !== null)
    return new ToolError(`${shown}: ended after ${end.timeoutMs} ms`, 'timeout', stderr)
  const [first = ''] = stderr.trim().split('\n')
  const denied = /permission denied|operation not permitted|you must be root/i
  const failure = denied.test(stderr) ? 'not permitted' : 'failed'
  const why = first === '' ? 'no word why' : first
  return new ToolError(`${shown}: ${why} (exit code ${end.code})`, failure, stderr)
}
