import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { AddressPort, IpFamily } from '../../util/ip.ts'
import type { Probe } from '../../kernel/probe.ts'
import type { TableSettings } from '../rule-table.ts'
import type { VipRule } from '../vip-rule.ts'
import type { PacketProbe } from '../../kernel/nft/packet-probe.ts'
import { TableWriter } from './table-writer.ts'
import {
  deleteAbandoned,
  deleteTables,
  listTables,
  probeTable,
} from '../../kernel/nft/tables.ts'
import { nftVersion, refusalOf } from '../../kernel/nft/tool-words.ts'

export interface ProbeDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly packetProbe: PacketProbe
}

/**
 * Writes a table as Usher's will be, under another name and for addresses that no
 * host has, with one rule that a connection must follow; then takes it out.
 */
export const probeNftables = async (
  family: IpFamily,
  deps: ProbeDeps,
): Promise<Probe> => {
  const { run } = deps
  let nft = 'nft'
  try {
    nft = await nftVersion(run)
    await deleteAbandoned(run, await listTables(run, family))
    const arrived = await tryTable(family, probeTable(family), deps)
    if (arrived !== false) return { usable: true, detail: nft }
    const detail = `${nft} took the rules, but no connection follows them`
    return { usable: false, detail }
  } catch (error) {
    return { usable: false, detail: refusalOf(error, nft) }
  }
}

const tryTable = async (
  family: IpFamily,
  table: string,
  { run, clock, packetProbe }: ProbeDeps,
): Promise<boolean | undefined> => {
  const writer = new TableWriter(family, table, { run, clock })
  try {
    return await packetProbe(family, async (from, to) => {
      const [rule, ...others] = probeRules(family, from, to)
      await writer.replace(others, probeSettings[family])
      if (rule !== undefined) await writer.change([], [rule])
    })
  } finally {
    await deleteTables(run, [table])
  }
}

/** Of RFC 5737 and RFC 3849: addresses for documentation, so that nothing real is hit. */
const unused: Readonly<Record<IpFamily, { address: string; cidr: string }>> = {
  IPv4: { address: '192.0.2.1', cidr: '192.0.2.0/24' },
  IPv6: { address: '2001:db8::1', cidr: '2001:db8::/32' },
}

const settingsFor = (family: IpFamily): TableSettings => ({
  proxyAddress: unused[family].address,
  nodePortCidrs: [unused[family].cidr],
  podCidrs: [unused[family].cidr],
  healthCheckPorts: [],
})

const probeSettings: Readonly<Record<IpFamily, TableSettings>> = {
  IPv4: settingsFor('IPv4'),
  IPv6: settingsFor('IPv6'),
}

/** One that a connection follows, and one of each other kind. */
const probeRules = (
  family: IpFamily,
  from: AddressPort,
  to: AddressPort,
): readonly VipRule[] => {
  const { address, cidr } = unused[family]
  const rule: VipRule = {
    key: 'probe',
    name: 'probe',
    family,
    kind: 'ExternalIP',
    address: from.address,
    protocol: 'TCP',
    port: from.port,
    to,
    outside: 'forward',
    fromNode: 'forward',
    allowedClients: undefined,
  }
  const refused = { address, port: 1, outside: 'reject', fromNode: 'drop' } as const
  return [
    rule,
    { ...rule, ...refused, key: 'a', kind: 'ClusterIP', protocol: 'UDP' },
    { ...rule, address, port: 2, key: 'b', allowedClients: [cidr] },
    { ...rule, ...refused, key: 'c', kind: 'NodePort', address: undefined },
    { ...rule, key: 'd', kind: 'NodePort', address: undefined, protocol: 'UDP' },
  ]
}
