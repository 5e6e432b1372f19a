import { type RunTool, ToolError } from '../run-tool.ts'

/**
 * Has one `ip` do all the lines, and goes on after those that fail. Gives the error text
 * of each such line by its index. Rejects (ToolError) when it is not known which were done.
 */
export const runIpBatch = async (
  run: RunTool,
  lines: readonly string[],
): Promise<ReadonlyMap<number, string>> => {
  const input = lines.map(line => `${line}\n`).join('')
  // 100 000 IPv6 addresses take longer than the 30 s that are the default.
  const timeoutMs = 30_000 + lines.length
  try {
    await run('ip', ['-force', '-batch', '-'], { input, timeoutMs })
    return new Map()
  } catch (error) {
    if (!(error instanceof ToolError) || error.failure === 'timeout') throw error
    const errors = lineErrors(error.stderr)
    if (errors === undefined) throw error
    return errors
  }
}

/**
 * Each failure is some lines of text, then `Command failed -:LINE`. Undefined when there is
 * none, or text after the last: then `ip` gave up half-way, as it does on a line that it
 * can't parse.
 */
export const lineErrors = (stderr: string): ReadonlyMap<number, string> | undefined => {
  const errors = new Map<number, string>()
  let messages: string[] = []
  for (const line of stderr.split('\n')) {
    const number = /^Command failed -:(\d+)$/.exec(line)?.[1]
    if (number === undefined) {
      if (line.trim() !== '') messages.push(line.trim())
      continue
    }
    errors.set(Number(number) - 1, plain(messages))
    messages = []
  }
  return errors.size === 0 || messages.length > 0 ? undefined : errors
}

const plain = (messages: readonly string[]): string =>
  messages.join('; ').replace(/^(RTNETLINK answers|Error): /, '') || 'no word why'

/** What `ip ... show` prints. A table in which nothing ever was does not exist. */
export const listOf = async (run: RunTool, args: readonly string[]): Promise<string> => {
  try {
    return await run('ip', args)
  } catch (error) {
    const isEmpty = /FIB table does not exist/.test((error as Error).message)
    if (isEmpty) return ''
    throw error
  }
}
