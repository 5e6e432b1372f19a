import { spawn } from 'node:child_process'
import { nftablesTables } from '../../../src/capture/nftables/nftables.ts'
import type { RuleTables, TableSettings } from '../../../src/capture/rule-table.ts'
import type { VipRule } from '../../../src/capture/vip-rule.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { familyOf, type IpFamily } from '../../../src/util/ip.ts'
import type { Netns } from '../../support/netns.ts'
import { proxyAddresses } from './world.ts'
import type { SpawnMonitor } from '../../../src/kernel/nft/monitor.ts'

/** A forwarding rule for `address:port`, or a node port, to a proxy port. */
export const rule = (
  address: string | undefined,
  port: number,
  proxyPort: number,
  over: Partial<VipRule> = {},
): VipRule => {
  const family = over.family ?? familyOf(address ?? '') ?? 'IPv4'
  const protocol = over.protocol ?? 'TCP'
  return {
    key: `${address ?? '*'} ${protocol} ${port}`,
    name: 'default/web:http',
    family,
    kind: address === undefined ? 'NodePort' : 'ClusterIP',
    address,
    protocol,
    port,
    to: { address: proxyAddresses[family], port: proxyPort },
    outside: 'forward',
    fromNode: 'forward',
    allowedClients: undefined,
    ...over,
  }
}

/** The same for TCP and UDP. */
export const both = (
  ...[address, port, to, over]: Parameters<typeof rule>
): VipRule[] => [
  rule(address, port, to, { ...over, protocol: 'TCP' }),
  rule(address, port, to, { ...over, protocol: 'UDP' }),
]

export const settings = (
  family: IpFamily,
  over: Partial<TableSettings> = {},
): TableSettings => ({
  proxyAddress: proxyAddresses[family],
  nodePortCidrs: undefined,
  podCidrs: family === 'IPv4' ? ['10.244.1.0/24'] : ['fd44::/64'],
  healthCheckPorts: [],
  ...over,
})

export interface Seen {
  readonly tables: RuleTables
  /** What was given to `nft -f -`. */
  readonly inputs: string[]
  /** All calls of nft. */
  readonly calls: string[]
  readonly blind: string[]
  readonly monitors: ReturnType<SpawnMonitor>[]
}

/** Tables in a namespace, and what they did there. */
export const tablesIn = (netns: Netns): Seen => {
  const inputs: string[] = []
  const calls: string[] = []
  const blind: string[] = []
  const monitors: ReturnType<SpawnMonitor>[] = []
  const run: RunTool = (command, args, options) => {
    calls.push([command, ...args].join(' '))
    if (options?.input !== undefined) inputs.push(options.input)
    return netns.run(command, args, options)
  }
  const [ip = '', ...prefix] = netns.prefix
  const spawnMonitor: SpawnMonitor = (command, args) => {
    const child = spawn(ip, [...prefix, command, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    monitors.push(child)
    return child
  }
  const onBlind = (reason: string) => void blind.push(reason)
  const tables = nftablesTables({ run, clock: systemClock, spawnMonitor, onBlind })
  return { tables, inputs, calls, blind, monitors }
}
