import { spawn } from 'node:child_process'
import { nftablesSteering } from '../../../src/capture/nftables.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { familyOf, type IpFamily } from '../../../src/util/ip.ts'
import type { Netns } from '../../support/netns.ts'
import {
  proxyAddresses,
  SteeredTable,
  type SteeredVip,
  type TableSettings,
} from '../steered-table.ts'
import type { SpawnMonitor } from '../../../src/kernel/nft/monitor.ts'

/** A forwarding rule for `address:port`, or a node port, to a proxy port. */
export const rule = (
  address: string | undefined,
  port: number,
  proxyPort: number,
  over: Partial<SteeredVip> = {},
): SteeredVip => {
  const family = over.family ?? familyOf(address ?? '') ?? 'IPv4'
  const protocol = over.protocol ?? 'TCP'
  return {
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
): SteeredVip[] => [
  rule(address, port, to, { ...over, protocol: 'TCP' }),
  rule(address, port, to, { ...over, protocol: 'UDP' }),
]

export const settings = (
  family: IpFamily,
  over: Partial<TableSettings> = {},
): TableSettings => ({
  nodePortCidrs: undefined,
  podCidrs: family === 'IPv4' ? ['10.244.1.0/24'] : ['fd44::/64'],
  healthCheckPorts: [],
  ...over,
})

export interface Seen {
  /** Of a process of its own. */
  readonly table: (family: IpFamily) => SteeredTable
  /** What was given to `nft -f -`. */
  readonly inputs: string[]
  /** All calls of nft. */
  readonly calls: string[]
  readonly blind: string[]
  readonly monitors: ReturnType<SpawnMonitor>[]
  readonly spawnMonitor: SpawnMonitor
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
  const kind = nftablesSteering({ run, clock: systemClock, spawnMonitor, onBlind })
  const table = (family: IpFamily) => new SteeredTable(kind.rules(family), family)
  return { table, inputs, calls, blind, monitors, spawnMonitor }
}
