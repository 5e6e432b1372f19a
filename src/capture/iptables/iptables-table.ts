import type { RunTool } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { RuleTable, TableSettings } from '../rule-table.ts'
import type { VipRule } from '../vip-rule.ts'
import type { Backend } from '../../kernel/xtables/backend.ts'
import { Canary } from '../../kernel/canary.ts'
import { damageOf } from './damage.ts'
import type { ChosenBackend } from '../../kernel/xtables/choose-backend.ts'
import { holdLine } from './fixed-chains.ts'
import { takes } from '../../kernel/xtables/try-lines.ts'
import { Layout } from './layout.ts'
import { own } from './names.ts'
import { holdFound, removeBy, removeEverywhere } from './leftovers.ts'
import { changeText, holdText, replaceText, savedBy } from './restore-text.ts'

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
  /** What the kernel has; undefined when that is not known. */
  #installed: Installed | undefined
  #isHeld = false
  /** Of the back end that was chosen. */
  #seesSockets: boolean | undefined
  /** Calls under way, and how many there were: what they do is no damage. */
  #busy = 0
  #epoch = 0

  constructor(deps: IptablesTableDeps) {
    this.#deps = deps
  }

  replace(rules: readonly VipRule[], settings: TableSettings): Promise<void> {
    return this.#alone(() => this.#replace(rules, settings))
  }

  change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void> {
    return this.#alone(async () => {
      const before = this.#installed
      if (before === undefined) throw new Error('iptables: change before replace')
      // If this fails half-way, nothing is known any more.
      this.#installed = undefined
      const { backend, layout, settings } = before
      const changes = await layout.change(gone, come)
      if (layout.isOvergrown && !this.#isHeld) {
        await this.#replace([...layout.rules], settings)
        return
      }
      const text = await changeText(changes)
      if (text !== '') await backend.restore(text)
      this.#installed = before
    })
  }

  hold(): Promise<void> {
    return this.#alone(async () => {
      if (this.#isHeld) return
      if (this.#installed === undefined)
        await holdFound(this.#deps.run, this.#deps.family)
      else {
        await this.#installed.backend.restore(await holdText(true))
        this.#installed.layout.ledger.add(holdEdit)
      }
      this.#isHeld = true
    })
  }

  release(): Promise<void> {
    return this.#alone(async () => {
      if (this.#installed === undefined)
        throw new Error('iptables: release before replace')
      await this.#installed.backend.restore(await holdText(false))
      this.#installed.layout.ledger.remove(holdEdit)
      this.#isHeld = false
    })
  }

  remove(): Promise<void> {
    return this.#alone(async () => {
      this.#installed = undefined
      await removeEverywhere(this.#deps.run, this.#deps.family)
      this.#isHeld = false
      this.#chosen = undefined
      this.#seesSockets = undefined
    })
  }

  watch(damaged: (what: string) => void): () => void {
    const canary = new Canary({
      clock: this.#deps.clock,
      look: whole => this.#look(whole),
      epoch: () => (this.#busy > 0 || !this.#installed ? undefined : this.#epoch),
      damaged,
    })
    return () => canary.stop()
  }

  async #replace(rules: readonly VipRule[], settings: TableSettings): Promise<void> {
    this.#installed = undefined
    const isFirst = this.#chosen === undefined
    const { chosen, others } = await this.#backends()
    this.#seesSockets ??= await takes(chosen, seesSockets)
    const all = { ...settings, seesSockets: this.#seesSockets, isHeld: this.#isHeld }
    const [layout, saved] = await Promise.all([
      Layout.of(rules, all, this.#deps.family),
      savedBy(chosen),
    ])
    await chosen.restore(await replaceText(layout.ledger, saved))
    this.#installed = { backend: chosen, layout, settings }
    // What a process before this one has left there would be in force beside these.
    if (isFirst)
      for (const other of others) await removeBy(this.#deps.run, other, this.#deps.family)
  }

  /** Asked for once: rules of two back ends would be in each other's way. */
  async #backends(): Promise<ChosenBackend> {
    this.#chosen ??= await this.#deps.choose()
    return this.#chosen
  }

  async #look(whole: boolean): Promise<string> {
    if (this.#installed === undefined) return ''
    const { backend, layout } = this.#installed
    return damageOf(backend, layout.ledger, whole)
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    this.#busy++
    this.#epoch++
    try {
      return await work()
    } finally {
      this.#busy--
      this.#epoch++
    }
  }
}
