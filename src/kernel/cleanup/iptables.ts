import type { IpFamily } from '../../util/ip.ts'
import type { RunTool } from '../run-tool.ts'
import type { Backend, BackendMode } from '../xtables/backend.ts'
import { chooseBackend } from '../xtables/choose-backend.ts'
import { mayBeThere as ofIptables } from '../iptables/jumps.ts'
import { jumps as ofIpvs } from '../ipvs/rules.ts'
import { jumps as ofCaptures } from '../xtables/capture-names.ts'
import {
  modeOwner,
  isOwnChain,
  isOwnJump,
  isServiceChain,
  isUsherJump,
  kubeletDropChain,
  kubeletFirewall,
  kubeletShared,
  kubeletSigns,
  sharedFirewallComment,
} from '../xtables/kube-chains.ts'
import type { Found, Kind, Stay } from './clean-up.ts'
import { takeOut } from '../xtables/restore-text.ts'
import { tableNow } from '../xtables/table-now.ts'
import type { Jump } from '../xtables/wanted.ts'
import { isKubeProxySet } from '../ipvs/set-names.ts'
import type { SavedRule, SavedTable } from '../xtables/saved.ts'

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
      reason:
        "it was emptied, but a rule that iptables can't read leads to it (nft list ruleset)",
    }))
  }
  const stage = plan.table === 'nat' ? { stage: 'leads' as const } : {}
  return { leftovers: [{ what: planLines(name, plan), ...stage, remove }], stays }
}

const stayOf = (name: string, table: string, { chain, by, others }: HeldChain): Stay => {
  const more = others === 0 ? '' : ` (and ${others} more that it leads to)`
  return {
    what: `${name} -t ${table}: chain ${chain}${more}`,
    reason: `a rule of another program leads to it: -A ${by.text}`,
  }
}

/** What is to be done to one table of iptables. */
interface TablePlan {
  readonly table: string
  /** Rules of chains that stay. */
  readonly rules: readonly SavedRule[]
  readonly chains: readonly string[]
  readonly held: readonly HeldChain[]
}

/** A chain that another program goes on using. */
interface HeldChain {
  readonly chain: string
  readonly by: SavedRule
  /** Chains that stay because this one leads to them. */
  readonly others: number
}

/**
 * A chain that a rule of another program leads to stays as it is, with what it leads to in
 * turn; the jumps of kube-proxy's and Usher's go in any case. Chains that `keeps` names are
 * taken for another program's with all their rules, and so are the jumps to them; those of
 * them that only Usher writes go where they are another proxy's (`byOther`). `all`: the tables of
 * the family.
 */
export const planTable = (
  table: SavedTable,
  all: readonly SavedTable[] = [table],
  keeps: (table: string, chain: string) => boolean = () => false,
  byOther = false,
): TablePlan => {
  const own = ownChains(table)
  if (isFirewallOurs(table, all)) own.add(kubeletFirewall)
  for (const chain of own) if (keeps(table.name, chain)) own.delete(chain)
  const rules: SavedRule[] = []
  const holders = new Map<string, SavedRule>()
  for (const rule of table.rules) {
    if (own.has(rule.chain)) continue
    if (byOther && isUsherJump(table.name, rule)) {
      rules.push(rule)
      continue
    }
    const isKept = keeps(table.name, rule.chain)
    if (!isKept && isOwnRule(table, rule, own)) rules.push(rule)
    else if (own.has(rule.target)) holders.set(rule.target, rule)
  }
  const next = jumpsBetween(table, own)
  const held = Array.from(holders, ([chain, by]): HeldChain => {
    return { chain, by, others: reach([chain], next).size - 1 }
  })
  const staying = reach(holders.keys(), next)
  const chains = [...own].filter(chain => !staying.has(chain))
  return { table: table.name, rules, chains, held }
}

const ownChains = ({ name, chains, rules }: SavedTable): Set<string> => {
  const own = new Set([...chains.keys()].filter(chain => isOwnChain(name, chain)))
  if (name !== 'nat' || !chains.has(kubeletDropChain)) return own
  if (rules.some(({ chain }) => chain === kubeletDropChain))
    for (const chain of kubeletShared) own.delete(chain)
  // Without a rule in it, kube-proxy has made it, so as to be able to refer to it.
  else own.add(kubeletDropChain)
  return own
}

/** Without a kubelet, and with nothing in it but the rule that kube-proxy writes. */
const isFirewallOurs = (
  { name, rules }: SavedTable,
  all: readonly SavedTable[],
): boolean => {
  const own = rules.filter(({ chain }) => chain === kubeletFirewall)
  return (
    name === 'filter' &&
    own.length > 0 &&
    own.every(({ comment }) => comment === sharedFirewallComment) &&
    !all.some(table => kubeletSigns.some(chain => table.chains.has(chain)))
  )
}

/** Of a rule in a chain that stays. */
const isOwnRule = (
  { name, builtIn }: SavedTable,
  rule: SavedRule,
  own: ReadonlySet<string>,
): boolean => {
  if (builtIn.has(rule.chain))
    return (
      own.has(rule.target) &&
      (isOwnJump(rule) || (rule.target === kubeletFirewall && rule.isBare))
    )
  // kube-proxy's own rules in a chain that it has in common with the kubelet.
  return (
    name === 'nat' && kubeletShared.includes(rule.chain) && rule.sets.some(isKubeProxySet)
  )
}

type Jumps = ReadonlyMap<string, readonly string[]>

const jumpsBetween = ({ rules }: SavedTable, own: ReadonlySet<string>): Jumps => {
  const next = new Map<string, string[]>()
  for (const { chain, target } of rules) {
    if (!own.has(chain) || !own.has(target)) continue
    const targets = next.get(chain)
    if (targets === undefined) next.set(chain, [target])
    else targets.push(target)
  }
  return next
}

/** The chains themselves, and all that can be reached from them. */
const reach = (from: Iterable<string>, next: Jumps): ReadonlySet<string> => {
  const seen = new Set(from)
  // A set gives also what is added while it is walked through.
  for (const chain of seen) for (const target of next.get(chain) ?? []) seen.add(target)
  return seen
}

/** A line for each rule and chain; chains of Services and endpoints are counted. */
const planLines = (program: string, plan: TablePlan): readonly string[] => {
  const counts = new Map<string, number>()
  for (const chain of plan.chains) {
    const name = isServiceChain(chain) ? chain.replace(/[^-]*$/, '*') : chain
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const prefix = `${program} -t ${plan.table}:`
  return [
    ...plan.rules.map(({ text }) => `${prefix} rule -A ${text}`),
    ...Array.from(counts, ([name, count]) =>
      count === 1 ? `${prefix} chain ${name}` : `${prefix} ${count} chains ${name}`,
    ),
  ]
}
