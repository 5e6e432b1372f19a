import type { KernelSync } from '../kernel/proxier.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Log } from './log.ts'
import type { RuleObserver } from '../capture/rule-capture.ts'

/** Says what is done to the kernel by a kernel mode: much at debug, what nobody expects louder. */
export class KernelLog {
  readonly #log: Log
  readonly #mode: string
  /** By what failed, what was said of it. */
  readonly #failures = new Map<string, string>()
  readonly #written = new Set<IpFamily>()

  constructor(log: Log, mode: string) {
    this.#log = log
    this.#mode = mode
  }

  synced(family: IpFamily, { work, rules }: KernelSync, seconds: number): void {
    if (work === 'nothing') return
    const ms = Math.round(seconds * 1000)
    const written = rules.filter.written + rules.nat.written
    const level = this.#written.has(family) ? 'debug' : 'info'
    this.#written.add(family)
    const fields = { mode: this.#mode, family, work, ms, rules: written }
    this.#log[level](fields, 'Services are in the kernel')
  }

  damaged(family: IpFamily, what: string): void {
    const fields = { mode: this.#mode, family, what }
    this.#log.warn(fields, "somebody took away Usher's rules; they are written again")
  }

  repaired(family: IpFamily, what: string): void {
    const fields = { mode: this.#mode, family, what }
    this.#log.info(fields, "Usher's rules were repaired")
  }

  restoreFailed(family: IpFamily, work: 'partial' | 'full'): void {
    const fields = { mode: this.#mode, family, work }
    if (work === 'partial')
      this.#log.warn(fields, 'rules of what changed were refused; writing all of them')
  }

  /** Something that can be done without; '' when it works again. */
  failed(what: string, why: string): void {
    const before = this.#failures.get(what) ?? ''
    if (before === why) return
    this.#failures.set(what, why)
    const fields = { mode: this.#mode, what }
    if (why === '') this.#log.info(fields, 'this works again')
    else this.#log.warn({ ...fields, why }, 'this does not work, and is done without')
  }
}

/** The same for addresses that were made this host's own. */
export const addressLog =
  (log: Log) =>
  (what: string, error: string): void => {
    if (error === '')
      log.warn({ what }, "somebody took away Usher's addresses; they are back")
    else
      log.error(
        { what, error },
        "somebody took away Usher's addresses, and they can't be had",
      )
  }

/** Tells all of them. */
export const ruleObservers = (...all: readonly RuleObserver[]): RuleObserver => ({
  synced: (...args) => all.forEach(one => one.synced(...args)),
  repaired: (...args) => all.forEach(one => one.repaired(...args)),
  failed: (...args) => all.forEach(one => one.failed(...args)),
})

/** Says what is done to the kernel's rules: much at debug, what nobody expects louder. */
export const ruleLog = (log: Log, capture: string): RuleObserver => {
  let lastFailure = ''
  const lastErrors = new Map<IpFamily, string>()
  return {
    synced: (family, work, seconds) => {
      const ms = Math.round(seconds * 1000)
      const level = work === 'replaced' ? 'info' : 'debug'
      log[level]({ capture, family, work, ms }, 'rules are in the kernel')
    },
    repaired: (family, what, error) => {
      const fields = { capture, family, what }
      const isNews = lastErrors.get(family) !== error
      lastErrors.set(family, error)
      if (error === '')
        log.warn(fields, "somebody changed Usher's rules; they are put back")
      else
        log[isNews ? 'error' : 'debug'](
          { ...fields, error },
          "somebody changed Usher's rules, and they can't be put back",
        )
    },
    failed: (what, error) => {
      const text = `${what}: ${error.message}`
      if (text !== lastFailure)
        log.warn({ capture, why: error.message }, `${what} failed`)
      lastFailure = text
    },
  }
}
