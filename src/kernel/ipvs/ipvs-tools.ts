import { type RunTool, ToolError } from '../run-tool.ts'

/**
 * Milliseconds for a tool that has all there is to read: ipset looks up the name of the
 * protocol in a file, for each entry.
 */
export const longTimeoutMs = 300_000

/** The same for one that is fed lines. */
const timeoutFor = (lines: readonly string[]): number => 30_000 + 10 * lines.length

const inputOf = (lines: readonly string[]): string => `${lines.join('\n')}\n`

/** Stops at the first line that fails. Rejects with ToolError. */
export const restoreSets = async (
  run: RunTool,
  lines: readonly string[],
): Promise<void> => {
  if (lines.length === 0) return
  await run('ipset', ['restore', '-exist'], {
    input: inputOf(lines),
    timeoutMs: timeoutFor(lines),
  })
}

/**
 * Goes on after a line that fails; rejects with ToolError then. ipvsadm ends with 0 all the
 * same, so what it prints counts.
 */
export const restoreServers = async (
  run: RunTool,
  lines: readonly string[],
): Promise<void> => {
  if (lines.length === 0) return
  const output = await run('sh', ['-c', 'exec ipvsadm -R 2>&1'], {
    input: inputOf(lines),
    timeoutMs: timeoutFor(lines),
  })
  const [first = ''] = output.trim().split('\n')
  if (first !== '') throw new ToolError(`ipvsadm -R: ${first}`, 'failed', output)
}

/** Does `work` and gives false, or says why not. */
export const failureOf = async (
  work: () => Promise<unknown>,
): Promise<ToolError | undefined> => {
  try {
    await work()
    return undefined
  } catch (error) {
    if (error instanceof ToolError) return error
    throw error
  }
}
