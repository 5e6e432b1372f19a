import { ToolError, type RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { RuleTable, TableSettings } from '../rule-table.ts'
import type { VipRule } from '../vip-rule.ts'
import { clientsChainText } from './clients.ts'
import { ElementChanges } from './element-changes.ts'
import { elementsOf } from './elements.ts'
import { deleteTables, tablesOfUsher } from './leftovers.ts'
import type { Monitor } from './monitor.ts'
import { SharedUses } from './shared-uses.ts'
import { Stamps } from './stamps.ts'
import { type OwnTable, watchTable } from './table-watch.ts'
import { tableText } from './table-text.ts'
import { familyWords, tableName } from './words.ts'

export interface NftTableDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  /** When Usher can't tell for now whether its rules are whole. */
  readonly onBlind: (reason: string) => void
}

/** Usher's table of one family. Each change is one transaction, by one call of nft. */
export class NftTable implements RuleTable, OwnTable {
  readonly family: IpFamily
  readonly #deps: NftTableDeps
  readonly #table: string
  readonly #stamps = new Stamps()
  readonly #onOwnChange = new Set<() => void>()
  #uses = new SharedUses()
  #placed = false
  #era = 0

  constructor(family: IpFamily, deps: NftTableDeps) {
    this.family = family
    this.#deps = deps
    this.#table = `${familyWords(family).family} ${tableName}`
  }

  async replace(rules: readonly VipRule[], settings: TableSettings): Promise<void> {
    const changes = new ElementChanges()
    this.#uses = new SharedUses()
    await this.#enter(rules, changes)
    await this.#write([
      tableText(this.family, tableName, settings),
      this.#freshChains(),
      await changes.text(this.#table),
    ])
  }

  async change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void> {
    if (!this.#placed) throw this.#notPlaced()
    const changes = new ElementChanges()
    const now = this.#deps.clock.now()
    await forEachYielding(gone, rule => {
      for (const element of elementsOf(rule)) changes.gone(element)
      this.#uses.leave(rule, changes, now)
    })
    await this.#enter(come, changes)
    const elements = await changes.text(this.#table)
    if (elements === '') return
    const fresh = this.#freshChains()
    const idle = this.#idleChains(now)
    await this.#write([fresh, elements, idle], fresh !== '' || idle !== '')
  }

  async hold(): Promise<void> {
    if (!this.#placed) throw this.#notPlaced()
    const chain = `${this.#table} hold`
    await this.#write([`flush chain ${chain}\nadd rule ${chain} drop\n`])
  }

  async remove(): Promise<void> {
    const { run } = this.#deps
    this.#placed = false
    this.#era++
    await deleteTables(run, await tablesOfUsher(run, this.family))
  }

  watch(damaged: (what: string) => void): () => void {
    return watchTable(this, { ...this.#deps, damaged })
  }

  get placed(): boolean {
    return this.#placed
  }

  get era(): number {
    return this.#era
  }

  isOwn(stamp: string): boolean {
    return this.#stamps.take(stamp)
  }

  onOwnChange(callback: () => void): () => void {
    this.#onOwnChange.add(callback)
    return () => this.#onOwnChange.delete(callback)
  }

  async #enter(rules: readonly VipRule[], changes: ElementChanges): Promise<void> {
    await forEachYielding(rules, rule => {
      for (const element of elementsOf(rule)) changes.come(element)
      this.#uses.enter(rule, changes)
    })
  }

  #freshChains(): string {
    const field = `${familyWords(this.family).family} saddr`
    const lists = this.#uses.freshClients()
    return lists.map(list => clientsChainText(this.#table, field, list)).join('')
  }

  #idleChains(now: number): string {
    const chains = this.#uses.idleChains(now).map(chain => `${this.#table} ${chain}`)
    return chains.map(chain => `flush chain ${chain}\ndelete chain ${chain}\n`).join('')
  }

  /** `chains`: whether more changes than elements of sets. */
  async #write(parts: readonly string[], chains = true): Promise<void> {
    const set = `${this.#table} stamp`
    const stamp = `flush set ${set}\nadd element ${set} { ${this.#stamps.next()} }\n`
    this.#placed = false
    if (chains) this.#era++
    await this.#deps.run('nft', ['-f', '-'], { input: [...parts, stamp].join('') })
    this.#placed = true
    if (chains) for (const callback of this.#onOwnChange) callback()
  }

  #notPlaced(): ToolError {
    const text = `nft: table ${this.#table} is not as Usher left it; write it whole first`
    return new ToolError(text, 'failed', '')
  }
}
