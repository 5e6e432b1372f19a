import { ToolError } from '../run-tool.ts'
import { type Backend, showChains } from './backend.ts'
import { jumpDamage } from './jumps.ts'
import type { Owner } from './kube-chains.ts'
import { readTable, type SavedTable } from './saved.ts'
import { isBusy } from './try-lines.ts'
import type { Jump } from './wanted.ts'

/** What should be in one table. */
export interface ExpectedTable {
  readonly name: string
  readonly jumps: readonly Jump[]
  readonly chains: readonly { readonly name: string; readonly rules: number }[]
}

/** Milliseconds for reading a whole table. */
const timeoutMs = 120_000
/** Longer chains are not read whole: that their last rule is there is enough. */
const mostRules = 100

/**
 * What is wrong with some chains and the jumps to them, in a few words; '' for nothing.
 * `whole`: reads the tables to their ends, for expectations of all chains. Rejects with
 * ToolError when nothing can be read now.
 */
export const damageIn = async (
  backend: Backend,
  owner: Owner,
  tables: readonly ExpectedTable[],
  whole = false,
): Promise<string> => {
  for (const table of tables) {
    const wrong = whole
      ? await savedDamage(backend, owner, table)
      : await shownDamage(backend, owner, table)
    if (wrong !== '') return wrong
  }
  return ''
}

const savedDamage = async (
  backend: Backend,
  owner: Owner,
  table: ExpectedTable,
): Promise<string> => {
  const text = await backend.save(table.name, { timeoutMs })
  return compared(table, await readTable(text, table.name, owner), owner, Infinity)
}

/** By one process that reads the chains it is about and no others. */
const shownDamage = async (
  backend: Backend,
  owner: Owner,
  table: ExpectedTable,
): Promise<string> => {
  const { name, jumps, chains } = table
  const shows = [
    ...new Set(jumps.map(({ chain }) => chain)),
    ...chains.map(each =>
      each.rules > mostRules ? `${each.name} ${each.rules}` : each.name,
    ),
  ]
  try {
    const text = await showChains(backend, name, shows)
    return compared(table, await readTable(text, name, owner), owner, mostRules)
  } catch (error) {
    // It ends at the first chain that is missing, and does not name it.
    const isGone =
      error instanceof ToolError && error.failure === 'failed' && !isBusy(error)
    if (!isGone) throw error
    return savedDamage(backend, owner, table)
  }
}

const compared = (
  { name, jumps, chains }: ExpectedTable,
  saved: SavedTable,
  owner: Owner,
  most: number,
): string => {
  const wrong = jumpDamage(jumps, saved, owner)
  if (wrong !== '') return wrong
  for (const chain of chains) {
    const what = `chain ${chain.name} of table ${name}`
    const there = saved.chains.get(chain.name)
    if (chain.rules > most) {
      if (there === undefined) return `${what} has fewer than ${chain.rules} rules`
    } else if (there === undefined) return `${what} is gone`
    else if (there !== chain.rules)
      return `${what} has ${there} rules instead of ${chain.rules}`
  }
  return ''
}
