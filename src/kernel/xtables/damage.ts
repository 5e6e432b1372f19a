import { type Backend, isBusy } from './backend.ts'
import { jumpDamage } from './jumps.ts'
import type { Owner } from './kube-chains.ts'
import { chainSizes } from './nft-rules.ts'
import { readTable, type SavedTable } from './saved.ts'
import { chainsNow, listed, unlisted } from './table-now.ts'
import type { Jump } from './wanted.ts'
import type { Problem } from '../../model/snapshot.ts'
import { familyKeywords } from '../nft/tables.ts'
import { ToolError } from '../run-tool.ts'

/** What should be in one table. */
export interface ExpectedTable {
  readonly name: string
  readonly jumps: readonly Jump[]
  readonly chains: readonly ExpectedChain[]
  /** Those that are looked at only where the whole table is read. */
  readonly more: readonly ExpectedChain[]
}

interface ExpectedChain {
  readonly name: string
  readonly rules: number
}

/** Longer chains are not read whole: that their last rule is there is enough. */
const mostRules = 100

/**
 * What is wrong with some chains and the jumps to them, in a few words; '' for nothing.
 * `lists`: reads whole tables, which takes as long as they are, and so knows whether iptables
 * can list them. Rejects with ToolError when nothing can be read now.
 */
export const damageIn = async (
  backend: Backend,
  owner: Owner,
  tables: readonly ExpectedTable[],
  unreadable: Unreadable,
  lists: boolean,
): Promise<string> => {
  // Together: each look is a few processes that start, and what is wrong is not served until then.
  const checks = tables.map(async ({ name, jumps, chains, more }) => {
    const asked = [
      ...new Set(jumps.map(({ chain }) => chain)),
      ...chains.map(each =>
        each.rules > mostRules ? `${each.name} ${each.rules}` : each.name,
      ),
    ]
    const table = lists ? await unreadable.list(backend, name, owner) : undefined
    const saved =
      table ?? (await chainsNow(backend, name, owner, { chains: asked, jumps }))
    unreadable.note(backend, saved)
    const sizes = lists && !table ? await chainSizes(backend, name) : undefined
    return (
      jumpDamage(jumps, saved, owner) ||
      compared(name, chains, saved.chains, table ? Infinity : mostRules) ||
      (table ? compared(name, more, table.chains) : '') ||
      (sizes ? compared(name, more, sizes, Infinity, 'chain ') : '')
    )
  })
  return (await Promise.all(checks)).find(wrong => wrong !== '') ?? ''
}

const compared = (
  table: string,
  chains: readonly ExpectedChain[],
  sizes: ReadonlyMap<string, number>,
  most = Infinity,
  prefix = '',
): string => {
  for (const chain of chains) {
    const what = `chain ${chain.name} of table ${table}`
    const there = sizes.get(prefix + chain.name)
    if (chain.rules > most) {
      if (there === undefined) return `${what} has fewer than ${chain.rules} rules`
    } else if (there === undefined) return `${what} is gone, or can't be read`
    else if (there !== chain.rules)
      return `${what} has ${there} rules instead of ${chain.rules}`
  }
  return ''
}

/** Tables that iptables can't list, as of the last look at each. */
export class Unreadable {
  readonly #problems = new Map<string, Problem>()

  /** Where it has been read well, `list` says so. */
  note(
    { family }: Backend,
    { name, partial }: Pick<SavedTable, 'name' | 'partial'>,
  ): void {
    if (partial === undefined) return
    const table = `table ${familyKeywords(family).family} ${name}`
    this.#problems.set(name, {
      object: `iptables ${table}`,
      field: partial.unreadable.join(', '),
      message: `has rules that iptables can't read, because they were made with nft: Usher maintains its own rules but can't see all others; move those to a table of their own (nft list ${table})`,
    })
  }

  /** A whole table; undefined where iptables can't list it, now or at all. */
  async list(
    backend: Backend,
    name: string,
    owner: Owner,
  ): Promise<SavedTable | undefined> {
    try {
      const text = await listed(backend, name)
      if (text !== undefined) {
        this.#problems.delete(name)
        return await readTable(text, name, owner)
      }
      this.note(backend, { name, partial: unlisted })
    } catch (error) {
      if (!(error instanceof ToolError) || isBusy(error)) throw error
      // It is not known now, and looked at again.
    }
    return undefined
  }

  problems(): readonly Problem[] {
    return [...this.#problems.values()]
  }
}
