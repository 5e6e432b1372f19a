import type { RunTool } from '../run-tool.ts'
import type { Kind, Leftover } from './clean-up.ts'
import { isProbeTable, listTables, servicesTableName, tableName } from '../nft/tables.ts'

/** As in `ip usher`, and the names of its chains. */
type Table = readonly [name: string, chains: readonly string[]]

const nameOf = ([name]: Table): string => name.slice(name.indexOf(' ') + 1)

/**
 * Tables of their own: Usher's, those Usher tries its hand at, and those of kube-proxy's
 * nftables mode (KEP-3866), which are in the families ip and ip6.
 */
const isOwn = (name: string): boolean =>
  [tableName, servicesTableName, 'kube-proxy'].includes(name) || isProbeTable(name)

/** `keeps`: tables by name that are no leftovers, because what runs has them. */
export const nftablesKind = (
  run: RunTool,
  keeps: (name: string) => boolean = () => false,
): Kind => ({
  name: 'nftables tables',
  find: async () => {
    const [four, six] = [await listTables(run, 'IPv4'), await listTables(run, 'IPv6')]
    const all = [...four, ...six].filter(table => isOwn(nameOf(table)))
    const tables = all.filter(table => !keeps(nameOf(table)))
    const leads = tables.filter(keepsSilence).map(table => emptied(run, table))
    return { leftovers: [...leads, ...tables.map(one => leftover(run, one))], stays: [] }
  },
})

/**
 * The table of captures does. Those of the modes go at once: what refuses ClusterIPs that are led
 * nowhere is in them, too, and would refuse clients of the mode that serves from now on.
 */
const keepsSilence = (table: Table): boolean => nameOf(table) === tableName

/**
 * The chains that lead packets elsewhere are emptied first: a table whose other chains keep
 * an address silent goes when nothing is led there any more.
 */
const emptied = (run: RunTool, [name, chains]: Table): Leftover => ({
  what: [],
  stage: 'leads',
  remove: async () => {
    const leading = chains.filter(chain => chain.startsWith('nat-'))
    const input = leading.map(chain => `flush chain ${name} ${chain}\n`).join('')
    if (input !== '') await run('nft', ['-f', '-'], { input })
    return []
  },
})

const leftover = (run: RunTool, table: Table): Leftover => ({
  ...(!keepsSilence(table) && { stage: 'leads' }),
  what: [`nftables table ${table[0]}`],
  remove: async () => {
    await run('nft', ['delete', 'table', ...table[0].split(' ')])
    return []
  },
})
