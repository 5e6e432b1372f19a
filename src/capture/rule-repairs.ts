import type { Clock, Timer } from '../util/clock.ts'
import type { IpFamily } from '../util/ip.ts'
import type { FamilyRules } from './family-rules.ts'

export interface RuleRepairsDeps {
  readonly clock: Clock
  readonly families: ReadonlyMap<IpFamily, FamilyRules>
  /** Told of each attempt; '' for `error` when the rules are as they should be again. */
  readonly repaired: (family: IpFamily, what: string, error: string) => void
}

/** Until rules that could not be put back are tried again; doubled each time. */
const firstRetryMs = 2000
const lastRetryMs = 30_000

/** Puts back the rules that somebody else has changed, for as long as it is started. */
export class RuleRepairs {
  readonly #deps: RuleRepairsDeps
  readonly #underWay = new Map<IpFamily, Promise<unknown>>()
  readonly #retries = new Map<IpFamily, Timer>()
  #endWatches: readonly (() => void)[] = []

  constructor(deps: RuleRepairsDeps) {
    this.#deps = deps
  }

  start(): void {
    if (this.#endWatches.length > 0) return
    this.#endWatches = Array.from(this.#deps.families, ([family, rules]) =>
      rules.watch(what => void this.#repair(family, what, firstRetryMs)),
    )
  }

  /** Nothing is put back from now on, but for what is under way. */
  stop(): void {
    for (const retry of this.#retries.values()) this.#deps.clock.clearTimeout(retry)
    this.#retries.clear()
    for (const end of this.#endWatches) end()
    this.#endWatches = []
  }

  async #repair(family: IpFamily, what: string, retryMs: number): Promise<void> {
    const { clock, families, repaired } = this.#deps
    const repair = families.get(family)?.repair()
    // One that has not begun will see to this damage, too.
    if (repair === this.#underWay.get(family)) return
    if (repair !== undefined) this.#underWay.set(family, repair)
    clock.clearTimeout(this.#retries.get(family))
    try {
      await repair
      repaired(family, what, '')
    } catch (error) {
      repaired(family, what, (error as Error).message)
      if (this.#endWatches.length === 0) return
      const again = (): void =>
        void this.#repair(family, what, Math.min(retryMs * 2, lastRetryMs))
      this.#retries.set(family, clock.setTimeout(again, retryMs))
    }
  }
}
