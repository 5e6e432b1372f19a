import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { RuleTable, TableSettings } from '../rule-table.ts'
import type { VipRule } from '../vip-rule.ts'
import type { Backend } from '../../kernel/xtables/backend.ts'
import { Canary } from '../../kernel/keeper/canary.ts'
import { Known } from '../../kernel/keeper/known.ts'
import { damageOf } from './damage.ts'
import type { ChosenBackend } from '../../kernel/xtables/choose-backend.ts'
import { holdLine } from './fixed-chains.ts'
import { takes } from '../../kernel/xtables/try-lines.ts'
import { Layout } from './layout.ts'
import { tableNames } from '../../kernel/xtables/wanted.ts'
import { own } from '../../kernel/xtables/capture-names.ts'
import { capturedIn, holdFound, removeBy, removeEverywhere } from './leftovers.ts'
import { changeText, holdText, replaceText } from './restore-text.ts'
import { Unreadable } from '../../kernel/xtables/unreadable.ts'
import type { Problem } from '../../model/snapshot.ts'

export interface IptablesTableDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly family: IpFamily
  /** Which back end to write by, as of now. */
  readonly choose: () => Promise<ChosenBackend>
}

interface Installed {
  readonly backend: Backend
  readonly layout: Layout
  readonly settings: TableSettings
}

/** A match for the socket that a packet will come to (xt_socket), which not every kernel has. */
const seesSockets = { filter: ['-m socket -j RETURN'] }

const holdEdit = { table: 'filter', chain: own.begin, line: holdLine } as const

/** Usher's rules of a family by iptables; see RuleTable. */
export class IptablesTable implements RuleTable {
  readonly #deps: IptablesTableDeps
  #chosen: ChosenBackend | undefined
  readonly #installed = new Known<Installed>()
  readonly #unreadable = new Unreadable()
  #isHeld = false
  /** Of the back end that was chosen. */
  #seesSockets: boolean | undefined

  constructor(deps: IptablesTableDeps) {
    this.#deps = deps
  }

  async replace(rules: readonly VipRule[], settings: TableSettings): Promise<void> {
    await this.#installed.write(() => this.#replace(rules, settings))
  }

  async change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void> {
    await this.#installed.write(async before => {
      if (before === undefined) throw new Error('iptables: change before replace')
      const { backend, layout, settings } = before
      const changes = await layout.change(gone, come)
      if (layout.isOvergrown && !this.#isHeld)
        return this.#replace([...layout.rules], settings)
      const text = await changeText(changes)
      if (text !== '') await backend.restore(text)
      return before
    })
  }

  async hold(): Promise<void> {
    await this.#installed.write(async before => {
      if (this.#isHeld) return before
      if (before === undefined) await holdFound(this.#deps.run, this.#deps.family)
      else {
        await before.backend.restore(await holdText(true))
        before.layout.ledger.add(holdEdit)
      }
      this.#isHeld = true
      return before
    })
  }

  async release(): Promise<void> {
    await this.#installed.write(async before => {
      if (before === undefined) throw new Error('iptables: release before replace')
      await before.backend.restore(await holdText(false))
      before.layout.ledger.remove(holdEdit)
      this.#isHeld = false
      return before
    })
  }

  async remove(): Promise<void> {
    await this.#installed.write(async () => {
      await removeEverywhere(this.#deps.run, this.#deps.family)
      this.#isHeld = false
      this.#chosen = undefined
      this.#seesSockets = undefined
      return undefined
    })
  }

  watch(damaged: (what: string) => void): () => void {
    const canary = new Canary({
      clock: this.#deps.clock,
      known: this.#installed,
      look: ({ backend, layout }, whole) =>
        damageOf(backend, layout.ledger, this.#unreadable, whole),
      damaged,
    })
    return () => canary.stop()
  }

  problems(): readonly Problem[] {
    return this.#unreadable.problems()
  }

  async #replace(rules: readonly VipRule[], settings: TableSettings): Promise<Installed> {
    const isFirst = this.#chosen === undefined
    const { chosen, others } = await this.#backends()
    this.#seesSockets ??= await takes(chosen, seesSockets)
    const all = { ...settings, seesSockets: this.#seesSockets, isHeld: this.#isHeld }
    const [layout, filter, nat] = await Promise.all([
      Layout.of(rules, all, this.#deps.family),
      capturedIn(chosen, 'filter'),
      capturedIn(chosen, 'nat'),
    ])
    const saved = { filter, nat }
    for (const table of tableNames) this.#unreadable.note(chosen, saved[table])
    await chosen.restore(await replaceText(layout.ledger, saved))
    // What a process before this one has left there would be in force beside these.
    if (isFirst)
      for (const other of others) await removeBy(this.#deps.run, other, this.#deps.family)
    return { backend: chosen, layout, settings }
  }

  /** Asked for once: rules of two back ends would be in each other's way. */
  async #backends(): Promise<ChosenBackend> {
    this.#chosen ??= await this.#deps.choose()
    return this.#chosen
  }
}
