import { forEachYielding } from '../../util/yielding.ts'
import { holdLine } from './fixed-chains.ts'
import type { LayoutChanges } from './layout.ts'
import type { Edit, Ledger } from './ledger.ts'
import { own, tableNames, type TableName } from './names.ts'
import { jumpRepairs, type SavedTable } from './saved.ts'

export type Saved = Readonly<Record<TableName, SavedTable>>

/**
 * Input for `iptables-restore --noflush` that makes Usher's chains what the ledger says.
 * Each table is one transaction. `filter` comes first: what may not come in is known
 * before anything is led there.
 */
export const replaceText = async (ledger: Ledger, saved: Saved): Promise<string> => {
  const parts: string[] = []
  for (const table of tableNames) {
    const { chains, jumps } = saved[table]
    const stale = [...chains.keys()].filter(chain => !ledger.has(table, chain))
    parts.push(`*${table}`)
    // Empties a chain that is there, and makes one that is not.
    for (const chain of [...ledger.chains(table), ...stale]) parts.push(empty(chain))
    parts.push(...jumpRepairs(table, jumps))
    await forEachYielding(ledger.lines(table), ([chain, line]) => {
      parts.push(`-A ${chain} ${line}`)
    })
    for (const chain of stale) parts.push(`-X ${chain}`)
    parts.push('COMMIT')
  }
  return `${parts.join('\n')}\n`
}

/**
 * Input for some changes; '' for none. What keeps clients out is put in before they are
 * led to a proxy port, and taken out after they no longer are.
 */
export const changeText = ({
  newChains,
  added,
  removed,
  oldChains,
}: LayoutChanges): string => {
  const before = [
    ...newChains.map(({ name }) => empty(name)),
    ...newChains.flatMap(chain => chain.lines.map(line => `-A ${chain.name} ${line}`)),
    ...linesOf('-A', added, 'filter'),
  ]
  const nat = [...linesOf('-D', removed, 'nat'), ...linesOf('-A', added, 'nat')]
  const after = [
    ...linesOf('-D', removed, 'filter'),
    ...oldChains.map(({ name }) => empty(name)),
    ...oldChains.map(({ name }) => `-X ${name}`),
  ]
  return [section('filter', before), section('nat', nat), section('filter', after)].join(
    '',
  )
}

const linesOf = (
  verb: '-A' | '-D',
  edits: readonly Edit[],
  table: TableName,
): readonly string[] =>
  edits
    .filter(edit => edit.table === table)
    .map(({ chain, line }) => `${verb} ${chain} ${line}`)

/** What `hold` puts in front of everything that begins, and `release` takes away again. */
export const holdText = (isHeld: boolean): string =>
  section('filter', [
    isHeld ? `-I ${own.begin} 1 ${holdLine}` : `-D ${own.begin} ${holdLine}`,
  ])

/** Takes out all of Usher's in a table; '' when there is nothing. */
export const removeText = (saved: Saved, table: TableName): string => {
  const { chains, jumps } = saved[table]
  const names = [...chains.keys()]
  return section(table, [
    ...names.map(empty),
    ...jumps.map(({ chain, line }) => `-D ${chain} ${line}`),
    ...names.map(name => `-X ${name}`),
  ])
}

const empty = (chain: string): string => `:${chain} - [0:0]`

const section = (table: TableName, lines: readonly string[]): string =>
  lines.length === 0 ? '' : `*${table}\n${lines.join('\n')}\nCOMMIT\n`
