import type { RuleObserver } from '../capture/rule-capture.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Log } from './log.ts'

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
