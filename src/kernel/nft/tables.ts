import { randomBytes } from 'node:crypto'
import type { Protocol } from '../../model/service.ts'
import type { IpFamily } from '../../util/ip.ts'
import { type RunTool, ToolError } from '../run-tool.ts'

/** Keywords of nft for one family. */
export interface FamilyKeywords {
  /** Of tables, and of the header's fields. */
  readonly family: 'ip' | 'ip6'
  readonly addressType: 'ipv4_addr' | 'ipv6_addr'
  readonly icmp: 'icmp' | 'icmpv6'
}

const keywords: Readonly<Record<IpFamily, FamilyKeywords>> = {
  IPv4: { family: 'ip', addressType: 'ipv4_addr', icmp: 'icmp' },
  IPv6: { family: 'ip6', addressType: 'ipv6_addr', icmp: 'icmpv6' },
}

export const familyKeywords = (family: IpFamily): FamilyKeywords => keywords[family]

/**
 * Numbers, not names: nft looks a name up in /etc/protocols, which small images don't have, and
 * reads that file for each element.
 */
export const protocolNumber: Readonly<Record<Protocol, number>> = {
  TCP: 6,
  UDP: 17,
  SCTP: 132,
}

/** The table of captures; there is one in each family. */
export const tableName = 'usher'

/** That of nftables mode. */
export const servicesTableName = 'usher-services'

/**
 * One after what leads packets elsewhere by iptables (-100): where nft is lost and its tables can't
 * be taken out, iptables mode takes their place all the same.
 */
export const afterIptables = -99

/**
 * That of iptables, whose latest chain comes first: where iptables is lost and the chains of its mode
 * can't be taken out, userspace mode takes their place all the same.
 */
export const amongIptables = -100

/** Before the names of the tables that only a probe makes, and takes away again. */
const probePrefix = 'usher-probe-'

export const isProbeTable = (name: string): boolean => name.startsWith(probePrefix)

/** `ip usher`, as the commands of nft name a table. */
export const tableOf = (family: IpFamily, name: string): string =>
  `${familyKeywords(family).family} ${name}`

/** The time in its name says when one was left behind. */
export const probeTable = (family: IpFamily): string => {
  const seconds = Math.floor(Date.now() / 1000)
  return tableOf(family, `${probePrefix}${seconds}-${randomBytes(4).toString('hex')}`)
}

/**
 * All tables of a family, as in `ip usher`, with the names of their chains. Whatever else is asked
 * of nft 1.0.6, `list tables` too, makes it read each element of each set first: seconds.
 */
export const listTables = async (
  run: RunTool,
  family: IpFamily,
): Promise<ReadonlyMap<string, readonly string[]>> => {
  const text = await run('nft', ['list', 'chains', familyKeywords(family).family])
  const tables = new Map<string, string[]>()
  let chains: string[] = []
  for (const line of text.split('\n')) {
    const [, table] = /^table \S+ (\S+)/.exec(line) ?? []
    if (table !== undefined) tables.set(tableOf(family, table), (chains = []))
    const [, chain] = /^\tchain (\S+) \{/.exec(line) ?? []
    if (chain !== undefined) chains.push(chain)
  }
  return tables
}

/** One transaction; a table that is gone by now is made first, lest all of it fails. */
export const deleteTables = async (
  run: RunTool,
  tables: readonly string[],
): Promise<void> => {
  if (tables.length === 0) return
  const input = tables
    .map(table => `add table ${table}\ndelete table ${table}\n`)
    .join('')
  await run('nft', ['-f', '-'], { input })
}

/** Takes out those of `tables` that a probe has left. */
export const deleteAbandoned = (
  run: RunTool,
  tables: ReadonlyMap<string, unknown>,
): Promise<void> => deleteTables(run, [...tables.keys()].filter(isAbandoned))

/** A probe whose table is older than this many seconds was killed half-way. */
const longestProbeS = 60

/** By the time in its name; another process may be probing just now. */
const isAbandoned = (table: string): boolean => {
  const made = new RegExp(` ${probePrefix}(\\d+)-`).exec(table)?.[1]
  return made !== undefined && Math.abs(Date.now() / 1000 - Number(made)) > longestProbeS
}

/**
 * Whether the kernel and the tool know a rule of the hook `input`. Nothing is written
 * (`nft --check`).
 */
export const knowsRule = async (
  run: RunTool,
  family: IpFamily,
  rule: string,
): Promise<boolean> => {
  const input = `table ${tableOf(family, `${probePrefix}check`)} {
	chain input {
		type filter hook input priority 0;
		${rule}
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
