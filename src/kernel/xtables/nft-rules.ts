import { listedSizes } from '../nft/own-table.ts'
import { familyKeywords, listTables, tableOf } from '../nft/tables.ts'
import { ToolError } from '../run-tool.ts'
import type { Backend } from './backend.ts'
import type { SavedRule } from './saved.ts'
import { type Jump, textOf } from './wanted.ts'

/** Undefined where there is no nft, or one that does not understand the table. */
const ifNft = (error: unknown): undefined => {
  if (!(error instanceof ToolError)) throw error
}

/** Of one table; undefined also of iptables-legacy, of which nft knows nothing. */
export const chainNames = (
  { mode, run, family }: Backend,
  table: string,
): Promise<readonly string[] | undefined> =>
  mode === 'legacy'
    ? Promise.resolve(undefined)
    : listTables(run, family).then(all => all.get(tableOf(family, table)) ?? [], ifNft)

/** How many rules each `chain NAME` has; undefined as above. */
export const chainSizes = async (
  { mode, run, family }: Backend,
  table: string,
): Promise<ReadonlyMap<string, number> | undefined> => {
  if (mode === 'legacy') return undefined
  const args = ['list', 'table', familyKeywords(family).family, table]
  return run('nft', args).then(listedSizes, ifNft)
}

const rulePattern =
  /^\t\t(.*?)(?:(?:jump|goto) ([\w-]+))?(?: comment ".*")? # handle (\d+)$/gm
/** What nft makes of the matches of Usher's and kube-proxy's own jumps. */
const plain =
  /^(?:ct state new|fib daddr type local|xt match "?\w+"?|counter packets \d+ bytes \d+|\s)*$/

/** All rules of a chain, of which only where they lead is read; each that may be one of `jumps` has its text. */
export const rulesByNft = (
  { run, family }: Backend,
  table: string,
  chain: string,
  jumps: readonly Jump[],
): Promise<readonly SavedRule[] | undefined> => {
  const savedRule = ([
    ,
    words = '',
    target = '',
    number,
  ]: readonly string[]): SavedRule => {
    const jump = jumps.find(each => each.chain === chain && each.target === target)
    const [isBare, handle] = [plain.test(words), Number(number)]
    const shown = `${chain} (handle ${handle}) -j ${target}`
    const text = isBare && jump !== undefined ? textOf(jump) : shown
    return { chain, target, text, comment: '', isBare, sets: [], handle }
  }
  const args = ['-a', 'list', 'chain', familyKeywords(family).family, table, chain]
  return run('nft', args).then(
    text => Array.from(text.matchAll(rulePattern), savedRule),
    ifNft,
  )
}

/** Takes out rules that `rulesByNft` has found. Rejects with ToolError. */
export const deleteByNft = async (
  { run, family }: Backend,
  table: string,
  rules: readonly SavedRule[],
): Promise<void> => {
  if (rules.length === 0) return
  const from = `delete rule ${tableOf(family, table)}`
  const lines = rules.map(({ chain, handle }) => `${from} ${chain} handle ${handle}\n`)
  await run('nft', ['-f', '-'], { input: lines.join('') })
}
