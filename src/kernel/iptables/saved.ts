import { linesOf } from '../../util/lines-of.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { kubeletDropChain } from '../cleanup/kube-chains.ts'
import { parseSaved, type SavedRule } from '../cleanup/saved-rules.ts'
import { ToolError } from '../run-tool.ts'
import { isModeChain, isServiceChain } from './names.ts'

/** What `iptables-save -t TABLE` said that matters here. */
export interface SavedTable {
  readonly chains: ReadonlySet<string>
  /** Those of others' chains that have to do with kube-proxy's chains. */
  readonly rules: readonly SavedRule[]
  readonly builtIn: ReadonlySet<string>
}

/** Lets others have their turn meanwhile: a table may have 100 000 lines. */
export const readSaved = async (text: string, table: string): Promise<SavedTable> => {
  // Without them, rules would be put in that are there already.
  if (/^# Table `.*' is incompatible/m.test(text.slice(0, 1000)))
    throw new ToolError(`table ${table} has rules that iptables can't read`, 'failed', '')
  // Of one that was cut off, too.
  if (text.trim() !== '' && !text.includes('\nCOMMIT\n'))
    throw new ToolError(`table ${table} could not be read to its end`, 'failed', '')
  const chains = new Set<string>()
  const others: string[] = [`*${table}`]
  await forEachYielding(linesOf(text), line => {
    if (line.startsWith(':')) {
      const name = line.slice(1, line.indexOf(' '))
      chains.add(name)
      if (!name.startsWith('KUBE-')) others.push(line)
    } else if (line.startsWith('-A ') && line.includes(' KUBE-')) {
      const chain = line.slice(3, line.indexOf(' ', 3))
      if (!isModeChain(table, chain)) others.push(line)
    }
  })
  const [parsed] = parseSaved(others.join('\n')).tables
  return { chains, rules: parsed?.rules ?? [], builtIn: parsed?.builtIn ?? new Set() }
}

/** Chains of nat that no ServicePort of now needs. */
export interface StaleChains {
  readonly emptied: readonly string[]
  /** Some of them; a rule of somebody else's may lead to the rest. */
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
  const stale = [...chains].filter(chain => isServiceChain(chain) && !isWanted(chain))
  const mine = (chain: string): boolean =>
    !led.has(chain) && rules.every(rule => rule.chain !== chain)
  const drop =
    chains.has(kubeletDropChain) && mine(kubeletDropChain) ? [kubeletDropChain] : []
  return {
    emptied: [...stale, ...drop],
    deleted: [...stale.filter(chain => !led.has(chain)), ...drop],
  }
}
