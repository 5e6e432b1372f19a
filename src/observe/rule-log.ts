import type { RuleObserver } from '../capture/rule-capture.ts'
import type { Log } from './log.ts'

/** Says what is done to the kernel's rules: much at debug, what nobody expects louder. */
export const ruleLog = (log: Log, capture: string): RuleObserver => {
  let lastFailure = ''
  return {
    synced: (family, work, seconds) => {
      const ms = Math.round(seconds * 1000)
      const level = work === 'replaced' ? 'info' : 'debug'
      log[level]({ capture, family, work, ms }, 'rules are in the kernel')
    },
    repaired: (family, what, error) => {
      const fields = { capture, family, what }
      if (error === '')
        log.warn(fields, "somebody changed Usher's rules; they are put back")
      else
        log.error(
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
