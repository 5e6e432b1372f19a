import { proxyAddressOf } from '../capture/proxy-address.ts'
import { type RunTool, ToolError } from './run-tool.ts'
import { ipFamilies } from '../util/ip.ts'

/**
 * Makes the kernel forget where a userspace Usher that is gone was to get connections. Its
 * rules are gone too, but conntrack would lead a client of this node, whose SYN met nobody,
 * there for two minutes more, however often the SYN is sent again. Never rejects for a
 * tool that fails: without conntrack(8) those clients wait and try anew.
 */
export const forgetProxyFlows = async (run: RunTool): Promise<void> => {
  for (const family of ipFamilies)
    for (const protocol of ['tcp', 'udp']) {
      const of = ['-f', family.toLowerCase(), '-p', protocol]
      try {
        await run('conntrack', ['-D', ...of, '--reply-src', proxyAddressOf[family]])
      } catch (error) {
        // Exit code 1 says too that there was nothing.
        if (!(error instanceof ToolError)) throw error
      }
    }
}
