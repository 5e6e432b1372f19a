import type { RunTool } from '../run-tool.ts'
import { type Kind, type Leftover, member } from './leftover.ts'
import { isProbeTable, servicesTableName, tableName } from '../nft/tables.ts'

/**
 * Tables of their own: Usher's, those Usher tries its hand at, and those of kube-proxy's
 * nftables mode (KEP-3866), which are in the families ip and ip6.
 */
const isOwn = (family: string, name: string): boolean =>
  (family === 'ip' || family === 'ip6') &&
  (name === tableName ||
    name === servicesTableName ||
    name === 'kube-proxy' ||
    isProbeTable(name))

/** `keeps`: tables by name that are no leftovers, because what runs has them. */
export const nftablesKind = (
  run: RunTool,
  keeps: (name: string) => boolean = () => false,
): Kind => ({
  name: 'nftables tables',
  find: async () => {
    const all = tablesIn(await run('nft', ['-j', 'list', 'tables']))
    const tables = all.filter(({ name }) => !keeps(name))
    const silent = tables.filter(keepsSilence)
    const leads = silent.length === 0 ? [] : [emptied(run, silent)]
    return { leftovers: [...leads, ...tables.map(one => leftover(run, one))], stays: [] }
  },
})

/**
 * The table of captures does. Those of the modes go at once: what refuses ClusterIPs that are led
 * nowhere is in them, too, and would refuse clients of the mode that serves from now on.
 */
const keepsSilence = ({ name }: Table): boolean => name === tableName

/**
 * The chains that lead packets elsewhere are emptied first: a table whose other chains keep
 * an address silent goes when nothing is led there any more.
 */
const emptied = (run: RunTool, tables: readonly Table[]): Leftover => ({
  what: [],
  stage: 'leads',
  remove: async () => {
    const list = member(
      JSON.parse(await run('nft', ['-j', 'list', 'chains'])),
      'nftables',
    )
    const chains = (Array.isArray(list) ? list : [])
      .map((entry: unknown) => member(entry, 'chain'))
      .filter(chain => tables.some(table => leadsIn(table, chain)))
    const lines = chains.map(chain => {
      const words = ['family', 'table', 'name'].map(key => String(member(chain, key)))
      return `flush chain ${words.join(' ')}\n`
    })
    if (lines.length > 0) await run('nft', ['-f', '-'], { input: lines.join('') })
    return []
  },
})

const leadsIn = ({ family, name }: Table, chain: unknown): boolean =>
  member(chain, 'family') === family &&
  member(chain, 'table') === name &&
  member(chain, 'type') === 'nat'

interface Table {
  readonly family: string
  readonly name: string
}

const leftover = (run: RunTool, table: Table): Leftover => ({
  ...(!keepsSilence(table) && { stage: 'leads' }),
  ...deleted(run, table),
})

const deleted = (run: RunTool, { family, name }: Table): Leftover => ({
  what: [`nftables table ${family} ${name}`],
  remove: async () => {
    await run('nft', ['delete', 'table', family, name])
    return []
  },
})

const tablesIn = (text: string): readonly Table[] => {
  const list = member(JSON.parse(text), 'nftables')
  return (Array.isArray(list) ? list : []).flatMap((entry: unknown) => {
    const table = member(entry, 'table')
    const family = String(member(table, 'family'))
    const name = String(member(table, 'name'))
    return isOwn(family, name) ? [{ family, name }] : []
  })
}
