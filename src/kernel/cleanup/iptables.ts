import type { IpFamily } from '../../util/ip.ts'
import type { RunTool } from '../run-tool.ts'
import type { Backend, BackendMode } from '../xtables/backend.ts'
import { chooseBackend } from '../xtables/choose-backend.ts'
import { isOwnChain } from '../xtables/kube-chains.ts'
import { type Found, type Kind, member, type Stay } from './leftover.ts'
import { removalText } from '../xtables/restore-text.ts'
import { readTables } from '../xtables/saved.ts'
import { type HeldChain, planLines, planTable, type TablePlan } from './table-plan.ts'

/** iptables-nft takes 10 s for the chains of 10 000 Services. */
const timeoutMs = 300_000

/** Which chains are no leftovers, because what runs has them. */
export type Keeps = (table: string, chain: string) => boolean

const keepsNone: Keeps = () => false

/** The chains and jumps of one family in one back end; jumps to kept chains stay. */
export const iptablesKind = (
  run: RunTool,
  family: IpFamily,
  mode: BackendMode,
  keeps: Keeps = keepsNone,
  byOther = false,
): Kind => {
  const name = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}`
  return {
    name: `rules of ${name}`,
    find: async () => {
      const { chosen } = await chooseBackend(run, family, mode)
      const saved = await chosen.save(undefined, { timeoutMs })
      const { tables, unreadable } = await readTables(saved)
      const plans = tables.map(table => planTable(table, tables, keeps, byOther))
      const found = plans.map(plan => foundBy(name, chosen, plan))
      const mixed = await mixedTables(run, family, unreadable, keeps)
      return {
        leftovers: found.flatMap(({ leftovers }) => leftovers),
        stays: [...found.flatMap(({ stays }) => stays), ...mixed],
      }
    },
  }
}

const foundBy = (name: string, backend: Backend, plan: TablePlan): Found => {
  const stays = plan.held.map(held => stayOf(name, plan.table, held))
  if (plan.chains.length + plan.rules.length === 0) return { leftovers: [], stays }
  const remove = async () => {
    const text = await removalText(plan.table, plan.rules, plan.chains)
    await backend.restore(text, { timeoutMs })
    return []
  }
  const stage = plan.table === 'nat' ? { stage: 'leads' as const } : {}
  return { leftovers: [{ what: planLines(name, plan), ...stage, remove }], stays }
}

const stayOf = (name: string, table: string, { chain, by, others }: HeldChain): Stay => {
  const more = others === 0 ? '' : ` (and ${others} more that it leads to)`
  return {
    what: `${name} -t ${table}: chain ${chain}${more}`,
    why: `a rule of another program leads there: -A ${by.text}`,
  }
}

/** Tables that only nft can read, because nft was used on them. */
const mixedTables = async (
  run: RunTool,
  family: IpFamily,
  tables: readonly string[],
  keeps: Keeps,
): Promise<readonly Stay[]> => {
  const [program, ofNft] = family === 'IPv4' ? ['iptables', 'ip'] : ['ip6tables', 'ip6']
  const stays = tables.map(async (table): Promise<readonly Stay[]> => {
    const text = await run('nft', ['-j', 'list', 'table', ofNft, table])
    const list = member(JSON.parse(text), 'nftables')
    const chains = (Array.isArray(list) ? list : [])
      .map((entry: unknown) => String(member(member(entry, 'chain'), 'name')))
      .filter(chain => isOwnChain(table, chain) && !keeps(table, chain))
    if (chains.length === 0) return []
    const what = `${program}-nft -t ${table}: ${chains.join(', ')}`
    const why =
      'the table has rules that iptables can not read; remove these chains, and the ' +
      `jumps to them, with nft (nft list table ${ofNft} ${table})`
    return [{ what, why }]
  })
  return (await Promise.all(stays)).flat()
}
