import { isDeepStrictEqual } from 'node:util'
import { Known } from '../kernel/keeper/known.ts'
import type { KernelSync, Proxier } from '../kernel/proxier.ts'
import type { Problem } from '../model/snapshot.ts'
import { type RuleLists, ruleChanges } from './rule-changes.ts'
import type { RuleTable, TableSettings } from './rule-table.ts'

interface Written {
  readonly rules: RuleLists
  readonly settings: TableSettings
  readonly work: KernelSync['work']
}

/**
 * A family's rules that lead VIPs to proxy ports: changed where it is known what the kernel
 * has, replaced as a whole where it is not.
 */
export class RuleProxier implements Proxier<RuleLists, TableSettings> {
  readonly #table: RuleTable
  readonly #forgetWaiting: () => Promise<void>
  readonly #written = new Known<Written>()
  #isInstalled = false
  /** Rules and flows of an earlier process may lead clients to ports of then. */
  #isTakingOver = false

  /** `forgetWaiting` is what forget-proxy-flows.ts says. */
  constructor(table: RuleTable, forgetWaiting: () => Promise<void>) {
    this.#table = table
    this.#forgetWaiting = forgetWaiting
  }

  /** Whether rules of this process may be in the kernel. */
  get isInstalled(): boolean {
    return this.#isInstalled
  }

  /**
   * Before the first proxy port is listened on. A port is another Service's in this process
   * than in the one before: until its own rules are in the kernel, no new client gets to any,
   * neither by a rule of then nor by what the kernel remembers of a flow.
   */
  async takeOver(): Promise<void> {
    await this.#table.hold()
    this.#isTakingOver = true
    await this.#forgetWaiting()
  }

  async sync(rules: RuleLists, settings: TableSettings): Promise<KernelSync> {
    this.#isInstalled = true
    const { work } = await this.#written.write(async known => {
      const isAsBefore = isDeepStrictEqual(known?.settings, settings)
      const did =
        known !== undefined && isAsBefore
          ? await this.#change(known.rules, rules)
          : await this.#replace(rules, settings)
      return { rules, settings, work: did }
    })
    return { work }
  }

  forget(): void {
    this.#written.forget()
  }

  problems(): readonly Problem[] {
    return this.#table.problems?.() ?? []
  }

  watch(damaged: (what: string) => void): () => void {
    return this.#table.watch(damaged)
  }

  async hold(): Promise<void> {
    // What comes after it is a new start.
    this.forget()
    if (this.#isInstalled) await this.#table.hold()
  }

  async remove(): Promise<void> {
    this.forget()
    if (this.#isInstalled) await this.#table.remove()
    this.#isInstalled = false
  }

  close(): void {}

  async #change(from: RuleLists, to: RuleLists): Promise<KernelSync['work']> {
    const { gone, come } = ruleChanges(from, to)
    if (gone.length + come.length === 0) return 'nothing'
    await this.#table.change(gone, come)
    return 'partial'
  }

  async #replace(rules: RuleLists, settings: TableSettings): Promise<KernelSync['work']> {
    await this.#table.replace(rules.flat(), settings)
    if (this.#isTakingOver) {
      // Clients who were held since then are remembered with the port of then.
      await this.#forgetWaiting()
      await this.#table.release()
      this.#isTakingOver = false
    }
    return 'full'
  }
}
