import { ToolError } from '../../kernel/run-tool.ts'
import type { Backend } from './backend.ts'
import { probeName } from './names.ts'

/**
 * Whether rules can ask for the socket that a packet will come to (xt_socket), which not
 * every kernel has: found out by a rule in a chain that nothing leads to.
 */
export const knowsSockets = async (backend: Backend): Promise<boolean> => {
  const chain = probeName('SOCKET')
  const made = `*filter\n:${chain} - [0:0]\n-A ${chain} -m socket -j RETURN\nCOMMIT\n`
  try {
    await backend.restore(made)
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'failed') return false
    throw error
  }
  await backend.restore(`*filter\n:${chain} - [0:0]\n-X ${chain}\nCOMMIT\n`)
  return true
}
