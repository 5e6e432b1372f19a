import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { IpFamily } from '../../util/ip.ts'
import { familyWords, probeTablePrefix } from './words.ts'

/**
 * Whether rules can ask for the socket that a packet will come to (nft_socket, Linux 5.9),
 * which not every kernel has. Nothing is written (`nft --check`).
 */
export const knowsSockets = async (run: RunTool, family: IpFamily): Promise<boolean> => {
  const { family: ip } = familyWords(family)
  const input = `table ${ip} ${probeTablePrefix}check {
	chain input {
		type filter hook input priority 0;
		socket wildcard 1 drop
	}
}
`
  try {
    await run('nft', ['--check', '-f', '-'], { input })
    return true
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'failed') return false
    throw error
  }
}
