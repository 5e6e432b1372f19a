import { familyWords, listTables, tableOf } from '../nft/tables.ts'
import { ToolError } from '../run-tool.ts'
import type { Backend } from './backend.ts'
import type { SavedRule } from './saved.ts'
import { type Jump, textOf } from './wanted.ts'

/** What `work` gives; undefined where there is no nft, or one that does not understand the table. */
const ifNft = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
  try {
    return await work()
  } catch (error) {
    if (error instanceof ToolError || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Of one table of iptables-nft. */
export const chainNames = (
  { run, family }: Backend,
  table: string,
): Promise<readonly string[] | undefined> =>
  ifNft(async () => (await listTables(run, family)).get(tableOf(family, table)) ?? [])

/** As `nft -j` prints it. */
interface NftRule {
  readonly chain: string
  readonly handle: number
  readonly expr: readonly Readonly<Record<string, unknown>>[]
}

/**
 * All rules of one chain, of which no more is told than where they lead. One that may be one of
 * `jumps` has its text.
 */
export const rulesByNft = (
  { run, family }: Backend,
  table: string,
  chain: string,
  jumps: readonly Jump[],
): Promise<readonly SavedRule[] | undefined> =>
  ifNft(async () => {
    const { family: word } = familyWords(family)
    const text = await run('nft', ['-j', 'list', 'chain', word, table, chain])
    const list = JSON.parse(text) as { nftables: readonly { rule?: NftRule }[] }
    return list.nftables.flatMap(({ rule }) =>
      rule === undefined ? [] : [savedRule(rule, jumps)],
    )
  })

const savedRule = (
  { chain, handle, expr }: NftRule,
  jumps: readonly Jump[],
): SavedRule => {
  const leads = expr.find(each => 'jump' in each || 'goto' in each)
  const { target = '' } = (leads?.['jump'] ?? leads?.['goto'] ?? {}) as Partial<Jump>
  const isBare = expr.every(isOfJumps)
  const jump = jumps.find(each => each.chain === chain && each.target === target)
  const text =
    isBare && jump !== undefined
      ? textOf(jump)
      : `${chain} (handle ${handle}) -j ${target}`
  return { chain, target, text, comment: '', isBare, sets: [], handle }
}

/** Matches of iptables' own (`xt`: conntrack, addrtype, comment) have no other words in nft. */
const isOfJumps = (expression: Readonly<Record<string, unknown>>): boolean =>
  ['xt', 'counter', 'jump', 'goto'].some(word => word in expression)

/** Takes out rules that `rulesByNft` has found. Rejects with ToolError. */
export const deleteByNft = async (
  { run, family }: Backend,
  table: string,
  rules: readonly SavedRule[],
): Promise<void> => {
  const lines = rules.map(
    ({ chain, handle }) =>
      `delete rule ${tableOf(family, table)} ${chain} handle ${handle}\n`,
  )
  if (lines.length > 0) await run('nft', ['-f', '-'], { input: lines.join('') })
}
