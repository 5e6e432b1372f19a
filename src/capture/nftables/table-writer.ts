import { clientsPart, guards } from '../../kernel/nft/clients.ts'
import { ElementChanges } from '../../kernel/elements/element-changes.ts'
import { elementTexts } from '../../kernel/nft/element-texts.ts'
import { OwnTable } from '../../kernel/nft/own-table.ts'
import {
  type ChainPart,
  partsTexts,
  removeText,
  SharedParts,
} from '../../kernel/nft/parts.ts'
import { SharedElements } from '../../kernel/elements/shared-elements.ts'
import { familyWords, knowsRule } from '../../kernel/nft/tables.ts'
import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { RuleTable } from '../rule-table.ts'
import type { VipRule } from '../vip-rule.ts'
import { elementsOf, sharedElementsOf } from './elements.ts'
import { type ChainSettings, holdText, tableText } from './table-text.ts'

export interface TableWriterDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** As in ChainSettings. */
  readonly natPriority?: number | undefined
}

/** Writes the rules of one family into a table. */
export class TableWriter implements Pick<RuleTable, 'change'> {
  readonly table: OwnTable
  readonly #family: IpFamily
  readonly #deps: TableWriterDeps
  #parts = new SharedParts()
  #shared = new SharedElements()
  #seesSockets: boolean | undefined

  /** `table` is `ip usher`, or that of a probe. */
  constructor(family: IpFamily, table: string, deps: TableWriterDeps) {
    this.#family = family
    this.#deps = deps
    this.table = new OwnTable(deps.run, table)
  }

  async replace(
    rules: readonly VipRule[],
    settings: Omit<ChainSettings, 'seesSockets'>,
  ): Promise<void> {
    const { name } = this.table
    const changes = new ElementChanges()
    this.#parts = new SharedParts()
    this.#shared = new SharedElements()
    await this.#enter(rules, changes)
    // The socket that a packet will come to (nft_socket, Linux 5.9): not every kernel has it.
    this.#seesSockets ??= await knowsRule(
      this.#deps.run,
      this.#family,
      'socket wildcard 1 drop',
    )
    const text = tableText(this.#family, name, {
      ...settings,
      natPriority: this.#deps.natPriority,
      seesSockets: this.#seesSockets,
    })
    const parts = [text, ...this.#freshChains(), ...(await elementTexts(name, changes))]
    await this.table.write(parts, { elements: changes, isWhole: true })
  }

  async change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void> {
    this.#needPlaced()
    const changes = new ElementChanges()
    const now = this.#deps.clock.now()
    await forEachYielding(gone, rule => {
      for (const element of elementsOf(rule)) changes.gone(element)
      for (const element of sharedElementsOf(rule)) this.#shared.leave(element, changes)
      for (const part of this.#partsOf(rule)) this.#parts.leave(part, now)
    })
    await this.#enter(come, changes)
    const elements = await elementTexts(this.table.name, changes)
    if (elements.length === 0) return
    const fresh = this.#freshChains()
    const idle = this.#idleChains(now)
    const isElementsOnly = fresh.length === 0 && idle === ''
    await this.table.write([...fresh, ...elements, idle], {
      elements: changes,
      isElementsOnly,
    })
  }

  /** After `replace`. */
  async hold(isHeld: boolean): Promise<void> {
    this.#needPlaced()
    await this.table.write([holdText(this.table.name, isHeld)])
  }

  async #enter(rules: readonly VipRule[], changes: ElementChanges): Promise<void> {
    await forEachYielding(rules, rule => {
      for (const element of elementsOf(rule)) changes.come(element)
      for (const element of sharedElementsOf(rule)) this.#shared.enter(element, changes)
      for (const part of this.#partsOf(rule)) this.#parts.enter(part)
    })
  }

  #freshChains(): readonly string[] {
    return partsTexts(this.table.name, this.#parts.takeFresh())
  }

  #idleChains(now: number): string {
    return removeText(this.table.name, this.#parts.takeIdle(now))
  }

  /** Chains that drop all clients but those that a rule allows. */
  #partsOf({ allowedClients }: VipRule): readonly ChainPart[] {
    const field = `${familyWords(this.#family).family} saddr`
    return guards(allowedClients) ? [clientsPart(field, allowedClients)] : []
  }

  #needPlaced(): void {
    if (this.table.isPlaced) return
    const text = `nft: table ${this.table.name} is not as Usher left it; write it whole first`
    throw new ToolError(text, 'failed', '')
  }
}
