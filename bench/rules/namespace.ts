import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'

/** A network namespace of the bench's own, and how often tools were run in it. */
export interface Namespace {
  readonly run: RunTool
  /** Goes before a command line to run it there. */
  readonly enter: readonly string[]
  /** Tools run since the last call. */
  readonly takeCount: () => number
  readonly close: () => Promise<void>
}

/**
 * @param label - tells it from others of this process
 * Rejects (ToolError) where no namespace can be made: that takes root.
 */
export const openNamespace = async (label = 'rules'): Promise<Namespace> => {
  const name = `usher-bench-${label}-${process.pid}`
  const enter = ['ip', 'netns', 'exec', name]
  let count = 0
  const run: RunTool = (command, args, options) => {
    count += 1
    return runTool('ip', [...enter.slice(1), command, ...args], options)
  }
  await runTool('ip', ['netns', 'add', name])
  await run('ip', ['link', 'set', 'lo', 'up'])
  return {
    run,
    enter,
    takeCount: () => {
      const taken = count
      count = 0
      return taken
    },
    close: async () => void (await runTool('ip', ['netns', 'del', name])),
  }
}
