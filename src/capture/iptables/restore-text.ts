import { jumpRepairs } from '../../kernel/xtables/jumps.ts'
import { captureOwner } from '../../kernel/xtables/kube-chains.ts'
import { chainLines, tableText } from '../../kernel/xtables/restore-text.ts'
import type { SavedTable } from '../../kernel/xtables/saved.ts'
import { type Chain, type TableName, tableNames } from '../../kernel/xtables/wanted.ts'
import { holdLine } from './fixed-chains.ts'
import type { LayoutChanges } from './layout.ts'
import type { Edit, Ledger } from './ledger.ts'
import { jumps, own } from '../../kernel/xtables/capture-names.ts'

export type Saved = Readonly<Record<TableName, SavedTable>>

/**
 * Input for `iptables-restore --noflush` that makes Usher's chains what the ledger says.
 * Each table is one transaction. `filter` comes first: what may not come in is known
 * before anything is led there.
 */
export const replaceText = async (ledger: Ledger, saved: Saved): Promise<string> => {
  const texts: string[] = []
  for (const table of tableNames) {
    const there = [...saved[table].chains.keys()]
    const stale = there.filter(
      chain => captureOwner.hasChain(table, chain) && !ledger.has(table, chain),
    )
    const repairs = jumpRepairs(jumps[table], saved[table], captureOwner)
    const lines = replaceLines(repairs, ledger, table, stale)
    texts.push(await tableText(table, [...ledger.chains(table), ...stale], lines))
  }
  return texts.join('')
}

function* replaceLines(
  repairs: readonly string[],
  ledger: Ledger,
  table: TableName,
  stale: readonly string[],
): Generator<string> {
  yield* repairs
  for (const [chain, line] of ledger.lines(table)) yield `-A ${chain} ${line}`
  for (const chain of stale) yield `-X ${chain}`
}

/**
 * Input for some changes; '' for none. What keeps clients out is put in before they are
 * led to a proxy port, and taken out after they no longer are.
 */
export const changeText = async ({
  newChains,
  added,
  removed,
  oldChains,
}: LayoutChanges): Promise<string> => {
  const newRules = chainLines(newChains, linesOf('-A', added, 'filter'))
  const moved = [...linesOf('-D', removed, 'nat'), ...linesOf('-A', added, 'nat')]
  // A chain goes after the rules that lead to it; emptied only then.
  const old = names(oldChains)
  const after = [
    ...linesOf('-D', removed, 'filter'),
    ...old.map(name => `:${name} - [0:0]`),
    ...old.map(name => `-X ${name}`),
  ]
  return [
    await tableText('filter', names(newChains), newRules),
    await tableText('nat', [], moved),
    await tableText('filter', [], after),
  ].join('')
}

const names = (chains: readonly Chain[]): readonly string[] =>
  chains.map(({ name }) => name)

const linesOf = (
  verb: '-A' | '-D',
  edits: readonly Edit[],
  table: TableName,
): readonly string[] =>
  edits
    .filter(edit => edit.table === table)
    .map(({ chain, line }) => `${verb} ${chain} ${line}`)

/** What `hold` puts in front of everything that begins, and `release` takes away again. */
export const holdText = (isHeld: boolean): Promise<string> =>
  tableText(
    'filter',
    [],
    [isHeld ? `-I ${own.begin} 1 ${holdLine}` : `-D ${own.begin} ${holdLine}`],
  )
