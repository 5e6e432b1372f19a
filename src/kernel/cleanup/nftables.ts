import { removeOwnTable } from '../../capture/nftables/leftovers.ts'
import { probeTablePrefix, tableName } from '../../capture/nftables/words.ts'
import type { RunTool } from '../run-tool.ts'
import { type Kind, type Leftover, member } from './leftover.ts'

/**
 * Tables of their own: Usher's, those Usher tries its hand at, and those of kube-proxy's
 * nftables mode (KEP-3866), which are in the families ip and ip6.
 */
const isOwn = (family: string, name: string): boolean =>
  (family === 'ip' || family === 'ip6') &&
  (name === tableName || name === 'kube-proxy' || name.startsWith(probeTablePrefix))

/** `keeps`: tables by name that are no leftovers, because what runs has them. */
export const nftablesKind = (
  run: RunTool,
  keeps: (name: string) => boolean = () => false,
): Kind => ({
  name: 'nftables tables',
  find: async () => {
    const all = tablesIn(await run('nft', ['-j', 'list', 'tables']))
    const tables = all.filter(({ name }) => !keeps(name))
    return { leftovers: tables.map(table => leftover(run, table)), stays: [] }
  },
})

interface Table {
  readonly family: string
  readonly name: string
}

const leftover = (run: RunTool, { family, name }: Table): Leftover => ({
  what: [`nftables table ${family} ${name}`],
  remove: async () => {
    if (name === tableName) await removeOwnTable(run, family === 'ip' ? 'IPv4' : 'IPv6')
    else await run('nft', ['delete', 'table', family, name])
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
