import { existsSync } from 'node:fs'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import { makeNetns, type Netns } from '../netns.ts'
import type { HostName } from './addresses.ts'
import { hostSetup, nodeSetup, proxyArp } from './routes.ts'

export type ClusterNet = Readonly<Record<HostName, Netns>>

/** All but the node. */
export const otherHosts = [
  'pod-1',
  'pod-2',
  'backend-1',
  'backend-2',
  'backend-3',
  'outside',
] as const

export const hostNames: readonly HostName[] = ['node', ...otherHosts]

const linear = 'net.ipv4.tcp_syn_linear_timeouts'
/**
 * Who dialled while nobody answered is answered a second after somebody does: a SYN comes
 * again every second, and not after 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s. Linux 6.5 and later.
 */
const soonAgain: readonly string[] = existsSync(
  `/proc/sys/${linear.replaceAll('.', '/')}`,
)
  ? [`${linear}=80`]
  : []

/**
 * A node with pods, another node's pod and an outside host, each in a network namespace of
 * its own, dual stack; removed when the test file ends. The outside host sends everything
 * to the node: VIPs, and what must not be reachable.
 */
export const makeClusterNet = async (label: string): Promise<ClusterNet> => {
  const made = await Promise.all(
    hostNames.map(async host => [host, await makeNetns(`${label}-${host}`)] as const),
  )
  const net = Object.fromEntries(made) as Record<HostName, Netns>
  const node = nodeSetup(host => net[host].name)
  await Promise.all(
    hostNames.map(host =>
      sysctl(net[host].run, [
        ...(host === 'node' ? node.sysctls : hostSetup(host).sysctls),
        ...soonAgain,
      ]),
    ),
  )
  await batch(net.node.run, node.links)
  await Promise.all([
    sysctl(net.node.run, proxyArp),
    ...otherHosts.map(host => batch(net[host].run, hostSetup(host).links)),
  ])
  return net
}

const batch = (run: RunTool, lines: readonly string[]): Promise<string> =>
  run('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` })

const sysctl = (run: RunTool, settings: readonly string[]): Promise<string> =>
  run('sysctl', ['-qw', ...settings])
