import { ToolError } from '../run-tool.ts'
import type { Backend } from '../xtables/backend.ts'
import { isServiceChain, kubeletDropChain } from '../xtables/kube-chains.ts'
import type { SavedTable } from '../xtables/saved.ts'
import { chainsNow, outerChains, tableNow } from '../xtables/table-now.ts'
import type { TableName } from '../xtables/wanted.ts'
import { mayBeThere } from './jumps.ts'
import { iptablesOwner } from './names.ts'

export type Saved = Readonly<Record<TableName, SavedTable>>

/**
 * What is there of both tables. With `known`, the chains of Services that this process has
 * written itself, only the chains that others put rules into are read: iptables-nft-save
 * takes 4 s for the rules of 10 000 Services, and this 20 ms.
 */
export const tablesThere = async (
  backend: Backend,
  known: Iterable<string> | undefined,
): Promise<Saved> => {
  const shown = (table: TableName, chains: Iterable<string>): Promise<SavedTable> =>
    chainsNow(backend, table, iptablesOwner, {
      chains: outerChains(table),
      jumps: mayBeThere[table],
      known: chains,
    })
  const saved = (table: TableName): Promise<SavedTable> =>
    tableNow(backend, table, iptablesOwner, mayBeThere[table])
  if (known !== undefined) {
    try {
      return { filter: await shown('filter', []), nat: await shown('nat', known) }
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
    }
  }
  const [filter, nat] = await Promise.all([saved('filter'), saved('nat')])
  return { filter, nat }
}

/** Chains of nat that no ServicePort of now needs. */
export interface StaleChains {
  readonly emptied: readonly string[]
  /** Some of them; a rule of another program may lead to the rest. */
  readonly deleted: readonly string[]
}

/**
 * Those of Services and endpoints that are gone, KUBE-XLB- of the layout up to 1.23, and
 * KUBE-MARK-DROP where kube-proxy made it: without a rule. With one it is the kubelet's.
 */
export const staleChains = (
  { chains, rules, partial }: SavedTable,
  isWanted: (chain: string) => boolean,
): StaleChains => {
  const led = new Set(rules.map(({ target }) => target))
  const stale = [...chains.keys()].filter(
    chain => isServiceChain(chain) && !isWanted(chain),
  )
  const mine = (chain: string): boolean =>
    !led.has(chain) && rules.every(rule => rule.chain !== chain)
  const drop =
    chains.has(kubeletDropChain) && mine(kubeletDropChain) ? [kubeletDropChain] : []
  const emptied = [...stale, ...drop]
  // A rule that can't be read may lead there, and one chain that stays would cost all others.
  const deleted = partial === undefined ? emptied.filter(chain => !led.has(chain)) : []
  return { emptied, deleted }
}
