import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'

/** A network namespace of the bench's own, and how often tools were run in it. */
export interface Namespace {
  readonly run: RunTool
  /** Tools run since the last call. */
  readonly takeCount: () => number
  readonly close: () => Promise<void>
}

/** Rejects (ToolError) where no namespace can be made: that takes root. */
export const openNamespace = async (): Promise<Namespace> => {
  const name = `usher-bench-${process.pid}`
  const inside = ['netns', 'exec', name]
  let count = 0
  const run: RunTool = (command, args, options) => {
    count += 1
    return runTool('ip', [...inside, command, ...args], options)
  }
  await runTool('ip', ['netns', 'add', name])
  await run('ip', ['link', 'set', 'lo', 'up'])
  return {
    run,
    takeCount: () => {
      const taken = count
      count = 0
      return taken
    },
    close: async () => void (await runTool('ip', ['netns', 'del', name])),
  }
}
