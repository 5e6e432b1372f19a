import { type RunTool, ToolError } from './run-tool.ts'
import type { IpFamily } from '../util/ip.ts'
import { proxyAddressOf } from './proxy-address.ts'
import { removeEntries } from './conntrack.ts'

const udp = '-p udp'
/**
 * A handshake that has reached one side only; and a connection that has ended: its client may
 * use the same port again at once (tcp_tw_reuse, ip-sysctl), and for two minutes the kernel
 * takes that for the old flow.
 */
const halfOpenOrOver = ['SYN_SENT', 'SYN_RECV', 'TIME_WAIT', 'CLOSE'].map(
  state => `-p tcp --state ${state}`,
)
const anyTcp = '-p tcp'

/**
 * Removes conntrack's entries of half-open TCP connections, and of UDP flows, to the proxy
 * address: a SYN that is sent again goes by its entry, not by the present rules. Established
 * connections are spared: an Usher that is ending may still serve them. To be called when no
 * rule leads there any more, or others do, and before the rules go that silence refusals from
 * there. UDP has no state to distinguish by: the next datagram of a flow goes by the rules.
 *
 * Returns why it could not be done. Never rejects for a tool that fails: without conntrack(8)
 * those clients go where they went.
 */
export const forgetWaiting = (
  run: RunTool,
  family: IpFamily,
): Promise<ToolError | undefined> => forget(run, family, [...halfOpenOrOver, udp])

/** The same for established connections: when it is certain that no process serves them. */
export const forgetProxyFlows = (
  run: RunTool,
  family: IpFamily,
): Promise<ToolError | undefined> => forget(run, family, [anyTcp, udp])

/** Each reads the whole table, which is large where flows are many: all at once. */
const forget = async (
  run: RunTool,
  family: IpFamily,
  kinds: readonly string[],
): Promise<ToolError | undefined> => {
  const all = await Promise.all(kinds.map(kind => forgetKind(run, family, kind)))
  return all.find(failure => failure !== undefined)
}

const forgetKind = async (
  run: RunTool,
  family: IpFamily,
  kind: string,
): Promise<ToolError | undefined> => {
  const call = `-D -f ${family.toLowerCase()} ${kind} --reply-src ${proxyAddressOf[family]}`
  try {
    await removeEntries(() => run('conntrack', call.split(' ')))
    return undefined
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    return error
  }
}
