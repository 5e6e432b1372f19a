import { ToolError } from '../../kernel/run-tool.ts'
import type { Backend } from '../../kernel/xtables/backend.ts'
import { isBusy, tryLines } from '../../kernel/xtables/try-lines.ts'

/**
 * Whether rules can ask for the socket that a packet will come to (xt_socket), which not
 * every kernel has.
 */
export const knowsSockets = async (backend: Backend): Promise<boolean> => {
  try {
    await tryLines(backend, { filter: ['-m socket -j RETURN'] })
    return true
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'failed' && !isBusy(error))
      return false
    throw error
  }
}
