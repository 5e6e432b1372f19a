import { type RunTool, ToolError } from '../kernel/run-tool.ts'
import type { IpFamily } from '../util/ip.ts'
import { proxyAddressOf } from './proxy-address.ts'

const udp = '-p udp'
const halfOpen = '-p tcp --state SYN_SENT'
const anyTcp = '-p tcp'

/**
 * Makes the kernel forget where those wait who were led to a userspace Usher and met
 * nobody: a SYN that is sent again goes by its entry in conntrack, not by the rules of now,
 * for two minutes. To be done when no rule leads there any more, and before those go by
 * which nobody hears that nobody listens there. UDP has no state to tell by: its flows are
 * led anew by their next datagram.
 *
 * Never rejects for a tool that fails: without conntrack(8) those clients are refused once.
 */
export const forgetWaiting = (run: RunTool, family: IpFamily): Promise<void> =>
  forget(run, family, [halfOpen, udp])

/** The same for connections that stood: when it is certain that nobody serves them. */
export const forgetProxyFlows = (run: RunTool, family: IpFamily): Promise<void> =>
  forget(run, family, [anyTcp, udp])

const forget = async (
  run: RunTool,
  family: IpFamily,
  kinds: readonly string[],
): Promise<void> => {
  for (const kind of kinds) {
    const call = `-D -f ${family.toLowerCase()} ${kind} --reply-src ${proxyAddressOf[family]}`
    try {
      await run('conntrack', call.split(' '))
    } catch (error) {
      // Exit code 1 says too that there was nothing.
      if (!(error instanceof ToolError)) throw error
    }
  }
}
