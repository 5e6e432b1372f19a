import type { IpFamily } from '../../util/ip.ts'
import type { RunTool } from '../run-tool.ts'
import type { Backend, BackendMode } from '../xtables/backend.ts'
import { chooseBackend } from '../xtables/choose-backend.ts'
import { mayBeThere as ofIptables } from '../iptables/jumps.ts'
import { jumps as ofIpvs } from '../ipvs/rules.ts'
import { jumps as ofCaptures } from '../xtables/capture-names.ts'
import { modeOwner } from '../xtables/kube-chains.ts'
import type { Found, Kind, Stay } from './leftover.ts'
import { takeOut } from '../xtables/restore-text.ts'
import { tableNow } from '../xtables/table-now.ts'
import type { Jump } from '../xtables/wanted.ts'
import { type HeldChain, planLines, planTable, type TablePlan } from './table-plan.ts'

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
      const tables = await Promise.all(
        Object.entries(mayBeThere).map(([table, jumps]) =>
          tableNow(chosen, table, nobody, jumps),
        ),
      )
      const found = tables.map(table =>
        foundBy(name, chosen, planTable(table, tables, keeps, byOther)),
      )
      return {
        leftovers: found.flatMap(({ leftovers }) => leftovers),
        stays: found.flatMap(({ stays }) => stays),
      }
    },
  }
}

/** Of no chain are the rules passed over. */
const nobody = modeOwner(() => false)

/** The jumps of all modes and captures as Usher writes them. */
const mayBeThere: Readonly<Record<string, readonly Jump[]>> = {
  filter: [...ofIptables.filter, ...ofIpvs.filter, ...ofCaptures.filter],
  mangle: ofIpvs.mangle,
  nat: [...ofIptables.nat, ...ofIpvs.nat, ...ofCaptures.nat],
}

const foundBy = (name: string, backend: Backend, plan: TablePlan): Found => {
  const stays = plan.held.map(held => stayOf(name, plan.table, held))
  if (plan.chains.length + plan.rules.length === 0) return { leftovers: [], stays }
  const remove = async () => {
    const stayed = await takeOut(backend, plan.table, plan)
    return stayed.map(chain => ({
      what: `${name} -t ${plan.table}: chain ${chain}`,
      why: "it is emptied, but a rule that iptables can't read leads there (nft list ruleset)",
    }))
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
