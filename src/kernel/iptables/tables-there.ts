import { ToolError } from '../run-tool.ts'
import { type Backend, showChains } from '../xtables/backend.ts'
import {
  isServiceChain,
  kubeletDropChain,
  kubeletFirewall,
} from '../xtables/kube-chains.ts'
import { readTable, type SavedTable } from '../xtables/saved.ts'
import type { TableName } from '../xtables/wanted.ts'
import { iptablesOwner } from './names.ts'

export type Saved = Readonly<Record<TableName, SavedTable>>

/** What `iptables-save -t TABLE` printed. Rejects with ToolError unless it is all of it. */
export const readWhole = (text: string, table: string): Promise<SavedTable> => {
  // Without them, rules would be put in that are there already.
  if (/^# Table `.*' is incompatible/m.test(text.slice(0, 1000)))
    throw new ToolError(`table ${table} has rules that iptables can't read`, 'failed', '')
  if (text.trim() !== '' && !text.includes('\nCOMMIT\n'))
    throw new ToolError(`table ${table} could not be read to its end`, 'failed', '')
  return readTable(text, table, iptablesOwner)
}

/** Of reading 100 000 rules. */
const timeoutMs = 300_000

/**
 * What is there of both tables. With `known`, the chains of Services that this process has
 * written itself, only the chains that others put rules into are read: iptables-nft-save
 * takes 4 s for the rules of 10 000 Services, and this 20 ms.
 */
export const tablesThere = async (
  backend: Backend,
  known: Iterable<string> | undefined,
): Promise<Saved> => {
  if (known !== undefined) {
    try {
      return {
        filter: await shown(backend, 'filter', []),
        nat: await shown(backend, 'nat', known),
      }
    } catch (error) {
      // A chain of these is gone.
      if (!(error instanceof ToolError)) throw error
    }
  }
  const [filter, nat] = await Promise.all([
    saved(backend, 'filter'),
    saved(backend, 'nat'),
  ])
  return { filter, nat }
}

const saved = async (backend: Backend, table: TableName): Promise<SavedTable> =>
  readWhole(await backend.save(table, { timeoutMs }), table)

const others: Readonly<Record<TableName, readonly string[]>> = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT', kubeletFirewall],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
}

const shown = async (
  backend: Backend,
  table: TableName,
  known: Iterable<string>,
): Promise<SavedTable> => {
  const text = await showChains(backend, table, others[table])
  const names = [...known].map(chain => `:${chain} - [0:0]`)
  return readTable([...names, text].join('\n'), table, iptablesOwner)
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
  { chains, rules }: SavedTable,
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
  return {
    emptied: [...stale, ...drop],
    deleted: [...stale.filter(chain => !led.has(chain)), ...drop],
  }
}
