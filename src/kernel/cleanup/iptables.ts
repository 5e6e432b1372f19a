import type { RunTool } from '../run-tool.ts'
import { isOwnChain } from '../xtables/kube-chains.ts'
import { type Found, isMissing, type Kind, member, type Stay } from './leftover.ts'
import { removalText } from '../xtables/restore-text.ts'
import { readTables } from '../xtables/saved.ts'
import { type HeldChain, planLines, planTable, type TablePlan } from './table-plan.ts'

type Program = 'iptables' | 'ip6tables'
type BackEnd = 'nft' | 'legacy'

/** iptables-nft takes 10 s for the chains of 10 000 Services. */
const timeoutMs = 300_000

/** Seconds to wait for the xtables lock, as kube-proxy does. */
const lockSeconds = '5'

/** Which chains are no leftovers, because what runs has them. */
export type Keeps = (table: string, chain: string) => boolean

const keepsNone: Keeps = () => false

/** The chains and jumps of one family in one back end; jumps to kept chains stay. */
export const iptablesKind = (
  run: RunTool,
  program: Program,
  backEnd: BackEnd,
  keeps: Keeps = keepsNone,
  byOther = false,
): Kind => {
  const name = `${program}-${backEnd}`
  return {
    name: `rules of ${name}`,
    find: async () => {
      const command = await commandOf(run, program, backEnd)
      // Without -t: naming a table makes it where it was not.
      const { tables, unreadable } = await readTables(
        await run(`${command}-save`, [], { timeoutMs }),
      )
      const plans = tables.map(table => planTable(table, tables, keeps, byOther))
      const found = plans.map(plan => foundBy(run, name, command, plan))
      const mixed = await mixedTables(run, program, unreadable, keeps)
      return {
        leftovers: found.flatMap(({ leftovers }) => leftovers),
        stays: [...found.flatMap(({ stays }) => stays), ...mixed],
      }
    },
  }
}

/**
 * What the back end's programs begin with: its own name, or the plain one where that is
 * this back end's. Rejects (`missing`) when there is neither.
 */
const commandOf = async (
  run: RunTool,
  program: Program,
  backEnd: BackEnd,
): Promise<string> => {
  const own = `${program}-${backEnd}`
  try {
    await run(own, ['--version'])
    return own
  } catch (error) {
    if (!isMissing(error)) throw error
    const version = await run(program, ['--version'])
    // Before 1.8 there was one back end, and no name for it.
    const plain: BackEnd = version.includes('nf_tables') ? 'nft' : 'legacy'
    if (plain !== backEnd) throw error
    return program
  }
}

const foundBy = (run: RunTool, name: string, command: string, plan: TablePlan): Found => {
  const stays = plan.held.map(held => stayOf(name, plan.table, held))
  if (plan.chains.length + plan.rules.length === 0) return { leftovers: [], stays }
  const remove = async () => {
    await run(`${command}-restore`, ['--noflush', '-w', lockSeconds], {
      input: await removalText(plan.table, plan.rules, plan.chains),
      timeoutMs,
    })
    return []
  }
  const stage = plan.table === 'nat' ? { stage: 'leads' as const } : {}
  return { leftovers: [{ what: planLines(name, plan), ...stage, remove }], stays }
}

const stayOf = (name: string, table: string, { chain, by, others }: HeldChain): Stay => {
  const more = others === 0 ? '' : ` (and ${others} more that it leads to)`
  return {
    what: `${name} -t ${table}: chain ${chain}${more}`,
    why: `a rule of somebody else's leads there: -A ${by.text}`,
  }
}

/** Tables that only nft can read, because nft was used on them. */
const mixedTables = async (
  run: RunTool,
  program: Program,
  tables: readonly string[],
  keeps: Keeps,
): Promise<readonly Stay[]> => {
  const family = program === 'iptables' ? 'ip' : 'ip6'
  const stays = tables.map(async (table): Promise<readonly Stay[]> => {
    const text = await run('nft', ['-j', 'list', 'table', family, table])
    const list = member(JSON.parse(text), 'nftables')
    const chains = (Array.isArray(list) ? list : [])
      .map((entry: unknown) => String(member(member(entry, 'chain'), 'name')))
      .filter(chain => isOwnChain(table, chain) && !keeps(table, chain))
    if (chains.length === 0) return []
    const what = `${program}-nft -t ${table}: ${chains.join(', ')}`
    const why =
      'the table has rules that iptables can not read; remove these chains, and the ' +
      `jumps to them, with nft (nft list table ${family} ${table})`
    return [{ what, why }]
  })
  return (await Promise.all(stays)).flat()
}
