import { isDeepStrictEqual } from 'node:util'
import { Turns } from '../util/turns.ts'
import type { RuleTable, TableSettings } from './rule-table.ts'
import type { VipRule } from './vip-rule.ts'

/** Rules that are to be taken out and put in, since the last time. */
export interface RuleChanges {
  readonly gone: readonly VipRule[]
  readonly come: readonly VipRule[]
}

/** What a sync did to the kernel's rules of a family. */
export type RuleWork = 'nothing' | 'changed' | 'replaced'

/**
 * Keeps one family's rules equal to what is wanted: by changes while it is known what the
 * kernel has, by replacing them all where it is not. Calls run one after another.
 */
export class FamilyRules {
  readonly #table: RuleTable
  readonly #forgetWaiting: () => Promise<void>
  /** Everything that is wanted, as of the last call. */
  #all: () => readonly VipRule[] = () => []
  #settings: TableSettings | undefined
  /** Whether the kernel has what the last call wanted. */
  #isKnown = false
  readonly #turns = new Turns()
  /** A repair that has not begun. */
  #repairing: Promise<RuleWork> | undefined

  /** Rules and flows of an earlier process may lead clients to ports of then. */
  #isTakingOver = false

  /** `forgetWaiting` is what forget-proxy-flows.ts says. */
  constructor(table: RuleTable, forgetWaiting: () => Promise<void>) {
    this.#table = table
    this.#forgetWaiting = forgetWaiting
  }

  /** Whether rules of ours may be in the kernel. */
  get isInstalled(): boolean {
    return this.#settings !== undefined
  }

  /**
   * Before the first proxy port is listened on. A port is another Service's in this process
   * than in the one before: until its own rules are in the kernel, nobody new gets to any,
   * neither by a rule of then nor by what the kernel remembers of a flow.
   */
  takeOver(): Promise<void> {
    return this.#turns.take(async () => {
      await this.#table.hold()
      this.#isTakingOver = true
      await this.#forgetWaiting()
    })
  }

  /** `all` is asked only when everything has to be written. Rejects as RuleTable does. */
  sync(
    settings: TableSettings,
    { gone, come }: RuleChanges,
    all: () => readonly VipRule[],
  ): Promise<RuleWork> {
    return this.#turns.take(async () => {
      const same = this.#isKnown && isDeepStrictEqual(settings, this.#settings)
      this.#all = all
      this.#settings = settings
      if (!same) return this.#replace()
      if (gone.length + come.length === 0) return 'nothing'
      this.#isKnown = false
      await this.#table.change(gone, come)
      this.#isKnown = true
      return 'changed'
    })
  }

  /**
   * Writes all of it once more; for rules that somebody else has changed. However often it
   * is asked for before it begins, it is done once.
   */
  repair(): Promise<RuleWork> {
    this.#repairing ??= this.#turns.take(() => {
      this.#repairing = undefined
      return this.#replace()
    })
    return this.#repairing
  }

  hold(): Promise<void> {
    return this.#turns.take(async () => {
      // What comes after it is a new start.
      this.#isKnown = false
      if (this.isInstalled) await this.#table.hold()
    })
  }

  remove(): Promise<void> {
    return this.#turns.take(async () => {
      this.#isKnown = false
      if (this.isInstalled) await this.#table.remove()
      this.#settings = undefined
    })
  }

  watch(damaged: (what: string) => void): () => void {
    return this.#table.watch(damaged)
  }

  async #replace(): Promise<RuleWork> {
    if (this.#settings === undefined) return 'nothing'
    this.#isKnown = false
    await this.#table.replace(this.#all(), this.#settings)
    if (this.#isTakingOver) {
      // Those who were held since then are remembered with the port of then.
      await this.#forgetWaiting()
      await this.#table.release()
      this.#isTakingOver = false
    }
    this.#isKnown = true
    return 'replaced'
  }
}
