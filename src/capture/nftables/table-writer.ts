import { Stamps } from '../../kernel/nft/monitor.ts'
import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { RuleTable } from '../rule-table.ts'
import type { VipRule } from '../vip-rule.ts'
import { clientsChainText } from './clients.ts'
import { ElementChanges, elementsOf, type SetName } from './elements.ts'
import { SharedUses } from './shared-uses.ts'
import { type ChainSettings, holdText, tableText } from './table-text.ts'
import { familyWords, probeTablePrefix } from '../../kernel/nft/words.ts'

export interface TableWriterDeps {
  readonly run: RunTool
  readonly clock: Clock
}

/** Writes one table. Each change is one transaction, by one call of nft. */
export class TableWriter implements Pick<RuleTable, 'change'> {
  readonly #family: IpFamily
  readonly #name: string
  readonly #deps: TableWriterDeps
  readonly #table: string
  readonly #stamps = new Stamps()
  readonly #onOwnChange = new Set<() => void>()
  readonly #sizes = new Map<SetName, number>()
  #uses = new SharedUses()
  #seesSockets: boolean | undefined
  #placed = false
  #era = 0
  #writes = 0

  constructor(family: IpFamily, name: string, deps: TableWriterDeps) {
    this.#family = family
    this.#name = name
    this.#deps = deps
    this.#table = `${familyWords(family).family} ${name}`
  }

  async replace(
    rules: readonly VipRule[],
    settings: Omit<ChainSettings, 'seesSockets'>,
  ): Promise<void> {
    const changes = new ElementChanges()
    this.#uses = new SharedUses()
    this.#sizes.clear()
    await this.#enter(rules, changes)
    const seesSockets = await this.#askForSockets()
    await this.#write([
      tableText(this.#family, this.#name, { ...settings, seesSockets }),
      this.#freshChains(),
      await changes.text(this.#table),
    ])
    this.#grow(changes)
  }

  async #askForSockets(): Promise<boolean> {
    this.#seesSockets ??= await knowsSockets(this.#deps.run, this.#family)
    return this.#seesSockets
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
    this.#grow(changes)
  }

  /** After `replace`. */
  async hold(isHeld: boolean): Promise<void> {
    if (!this.#placed) throw this.#notPlaced()
    await this.#write([holdText(this.#table, isHeld)])
  }

  /** Whether the table is in the kernel as it was last written; not during a change. */
  get placed(): boolean {
    return this.#placed
  }

  /** Another number after each change of chains or sets. */
  get era(): number {
    return this.#era
  }

  /** Another number after each change. */
  get writes(): number {
    return this.#writes
  }

  /** How many elements the sets have that ever had any. */
  get sizes(): ReadonlyMap<SetName, number> {
    return this.#sizes
  }

  /** Whether a transaction with this stamp was its own; true once. */
  isOwn(stamp: string): boolean {
    return this.#stamps.take(stamp)
  }

  /** Calls after each change of chains or sets; until the returned function is called. */
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

  #grow(changes: ElementChanges): void {
    for (const [set, growth] of changes.growth()) {
      this.#sizes.set(set, (this.#sizes.get(set) ?? 0) + growth)
    }
  }

  #freshChains(): string {
    const field = `${familyWords(this.#family).family} saddr`
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
    this.#writes++
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

/**
 * Whether rules can ask for the socket that a packet will come to (nft_socket, Linux 5.9),
 * which not every kernel has. Nothing is written (`nft --check`).
 */
const knowsSockets = async (run: RunTool, family: IpFamily): Promise<boolean> => {
  const { family: ip } = familyWords(family)
  const input = `table ${ip} ${probeTablePrefix}check {
	chain input {
		type filter hook input priority 0;
		socket wildcard 1 drop
	}
}
`
  try {
    await run('nft', ['--check', '-f', '-'], { input })
    return true
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'failed') return false
    throw error
  }
}
