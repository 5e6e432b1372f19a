import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import type { BackendMode } from '../../../src/kernel/xtables/backend.ts'

/**
 * A host with one back end of iptables: each tool that is not asked spares a process.
 */
export const oneBackend =
  (run: RunTool, backend: BackendMode): RunTool =>
  async (command, args, options) => {
    const [tool, kind] = command.split('-')
    if (isTables(tool) && kind !== backend)
      throw new ToolError(`${command}: not found`, 'missing', '')
    if (isTables(tool) && args[0] === '--version')
      return `${tool} v1.8.9 (${backend === 'nft' ? 'nf_tables' : 'legacy'})`
    return run(command, args, options)
  }

const isTables = (tool = ''): boolean => /^ip6?tables$/.test(tool)
