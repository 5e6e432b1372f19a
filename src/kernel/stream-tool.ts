import { setImmediate } from 'node:timers/promises'
import { startTool, type ToolOptions } from './run-tool.ts'

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

export const streamTool: StreamTool = async (command, args, line, options) => {
  const { stdout, ended } = startTool(command, args, options)
  // Before what it was read of: `ended` knows why it was cut off.
  await Promise.all([ended, stdout && readLines(stdout, line)])
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
