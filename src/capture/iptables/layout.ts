import type { IpFamily } from '../../util/ip.ts'
import type { Chain } from '../../kernel/xtables/wanted.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { VipRule } from '../vip-rule.ts'
import { type FixedSettings, fixedChains } from './fixed-chains.ts'
import { type Edit, Ledger } from './ledger.ts'
import { partName } from '../../kernel/xtables/capture-names.ts'
import { prefixMatch } from './packet-key.ts'
import { type ChainPlan, PrefixTree } from './prefix-tree.ts'
import {
  entriesOf,
  type Entry,
  type GroupName,
  groupNames,
  groups,
} from './rule-entries.ts'

/** What has to be done in the kernel after some VIPs have changed. */
export interface LayoutChanges {
  readonly newChains: readonly Chain[]
  readonly added: readonly Edit[]
  readonly removed: readonly Edit[]
  readonly oldChains: readonly Chain[]
}

/** Chains that grew beyond this since they were planned are planned anew. */
const mostInChain = 512

/**
 * All of Usher's chains of a family and their lines. Which chain a rule is in is planned
 * once, for all rules of that moment; later ones go where they belong in that plan.
 */
export class Layout {
  readonly ledger = new Ledger()
  readonly #plans: Readonly<Record<GroupName, ChainPlan>>
  readonly #rules = new Map<string, VipRule>()
  readonly #users = new Map<string, number>()
  #isOvergrown = false

  private constructor(plans: Readonly<Record<GroupName, ChainPlan>>) {
    this.#plans = plans
  }

  static async of(
    rules: Iterable<VipRule>,
    settings: FixedSettings,
    family: IpFamily,
  ): Promise<Layout> {
    const layout = new Layout(await planned(rules))
    layout.#declareAll(settings, family)
    await forEachYielding(rules, rule => {
      if (layout.#rules.has(rule.key)) return
      layout.#rules.set(rule.key, rule)
      for (const entry of entriesOf(rule)) layout.#add(entry)
    })
    // However it came to be: it is as good as it gets.
    layout.#isOvergrown = false
    return layout
  }

  /** Whether chains have become so long that it is worth planning them anew. */
  get isOvergrown(): boolean {
    return this.#isOvergrown
  }

  get rules(): Iterable<VipRule> {
    return this.#rules.values()
  }

  /** Of `gone` only the keys count: what they stand for is known here. */
  async change(
    gone: readonly VipRule[],
    come: readonly VipRule[],
  ): Promise<LayoutChanges> {
    const edits = { added: new Map<string, Edit>(), removed: new Map<string, Edit>() }
    const chains = new Map<string, Chain>()
    const before = new Set<string>()
    const note = (entry: Entry): void => {
      const { uses } = entry
      if (uses === undefined || chains.has(uses.name)) return
      chains.set(uses.name, uses)
      if (this.#users.has(uses.name)) before.add(uses.name)
    }
    const takeOut = (key: string): void => {
      const rule = this.#rules.get(key)
      if (rule === undefined) return
      this.#rules.delete(key)
      for (const entry of entriesOf(rule)) {
        note(entry)
        const edit = this.#remove(entry)
        if (edit !== undefined) move(edit, edits.added, edits.removed)
      }
    }
    await forEachYielding(gone, ({ key }) => takeOut(key))
    await forEachYielding(come, rule => {
      takeOut(rule.key)
      this.#rules.set(rule.key, rule)
      for (const entry of entriesOf(rule)) {
        note(entry)
        const edit = this.#add(entry)
        if (edit !== undefined) move(edit, edits.removed, edits.added)
      }
    })
    const all = [...chains.values()]
    const isThere = (name: string): boolean => this.#users.has(name)
    return {
      newChains: all.filter(({ name }) => !before.has(name) && isThere(name)),
      added: [...edits.added.values()],
      removed: [...edits.removed.values()],
      oldChains: all.filter(({ name }) => before.has(name) && !isThere(name)),
    }
  }

  #declareAll(settings: FixedSettings, family: IpFamily): void {
    for (const { table, name, lines } of fixedChains(settings, family)) {
      this.ledger.declare(table, name)
      for (const line of lines) this.ledger.add({ table, chain: name, line })
    }
    for (const name of groupNames) {
      const { table, keys } = groups[name]
      const { root, parts } = this.#plans[name]
      this.ledger.declare(table, root)
      for (const part of parts) this.ledger.declare(table, part.chain)
      for (const { from, prefix, chain } of parts) {
        const line = `${prefixMatch(prefix, keys, family)} -j ${chain}`
        this.ledger.add({ table, chain: from, line })
      }
    }
  }

  /** The edit, if the kernel's rules change by it. */
  #add(entry: Entry): Edit | undefined {
    this.#use(entry.uses)
    const edit = this.#editOf(entry)
    if (!this.ledger.add(edit)) return undefined
    if ((this.ledger.size(edit.table, edit.chain) ?? 0) > mostInChain)
      this.#isOvergrown = true
    return edit
  }

  #remove(entry: Entry): Edit | undefined {
    const edit = this.#editOf(entry)
    const isGone = this.ledger.remove(edit)
    this.#unuse(entry.uses)
    return isGone ? edit : undefined
  }

  #editOf({ group, key, line }: Entry): Edit {
    return { table: groups[group].table, chain: this.#plans[group].chainOf(key), line }
  }

  #use(chain: Chain | undefined): void {
    if (chain === undefined) return
    const users = this.#users.get(chain.name) ?? 0
    this.#users.set(chain.name, users + 1)
    if (users > 0) return
    this.ledger.declare('filter', chain.name)
    for (const line of chain.lines)
      this.ledger.add({ table: 'filter', chain: chain.name, line })
  }

  #unuse(chain: Chain | undefined): void {
    if (chain === undefined) return
    const users = this.#users.get(chain.name) ?? 0
    if (users > 1) {
      this.#users.set(chain.name, users - 1)
      return
    }
    this.#users.delete(chain.name)
    this.ledger.drop('filter', chain.name)
  }
}

/** What is taken out and put in again is no change. */
const move = (edit: Edit, from: Map<string, Edit>, to: Map<string, Edit>): void => {
  const id = `${edit.table} ${edit.chain} ${edit.line}`
  if (!from.delete(id)) to.set(id, edit)
}

const byGroup = <T>(make: (name: GroupName) => T): Readonly<Record<GroupName, T>> =>
  Object.fromEntries(groupNames.map(name => [name, make(name)])) as Record<GroupName, T>

const planned = async (
  rules: Iterable<VipRule>,
): Promise<Readonly<Record<GroupName, ChainPlan>>> => {
  const trees = byGroup(() => new PrefixTree())
  await forEachYielding(rules, rule => {
    for (const { group, key } of entriesOf(rule)) trees[group].insert(key)
  })
  return byGroup(name => {
    const { root, letter } = groups[name]
    return trees[name].plan(root, number => partName(letter, number))
  })
}
