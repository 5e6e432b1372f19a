import type { KeeperObserver } from '../kernel/keeper/rule-keeper.ts'
import type { KernelSync, ProxierObserver } from '../kernel/proxier.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Log, LogFields } from './log.ts'

/** Logs what is done to the kernel's rules: most at debug, what was not expected above. */
interface RuleLog extends KeeperObserver {
  /** Something that can be done without did not work. */
  failed(what: string, reason: string): void
}

/** Of a kernel mode. */
export const kernelLog = (log: Log, mode: string): RuleLog & ProxierObserver => {
  /** By what failed, what was said of it. */
  const failures = new Map<string, string>()
  const written = new Set<IpFamily>()
  const repaired = repairLog(log, 'rules', { mode })
  return {
    synced: (family, { work, rules }, seconds) => {
      if (work === 'nothing') return
      const level = written.has(family) ? 'debug' : 'info'
      written.add(family)
      const fields = {
        mode,
        family,
        work,
        ms: inMs(seconds),
        ...(rules && { rules: rules.filter.written + rules.nat.written }),
      }
      log[level](fields, 'Service rules written')
    },
    repaired: (family, what, error) => repaired(what, error, family),
    restoreFailed: (family, work) => {
      if (work === 'partial')
        log.warn(
          { mode, family, work },
          'a partial sync of the rules was rejected; starting a full sync',
        )
    },
    /** '' for `why` when it works again. */
    failed: (what, why) => {
      const before = failures.get(what) ?? ''
      if (before === why) return
      failures.set(what, why)
      if (why === '') log.info({ mode, what }, 'an optional feature works again')
      else
        log.warn(
          { mode, what, why },
          'an optional feature does not work here; continuing without it',
        )
    },
  }
}

/** What is in the log for `KernelSync.work`. */
const workOf: Readonly<Record<KernelSync['work'], string>> = {
  nothing: 'nothing',
  partial: 'changed',
  full: 'replaced',
}

/** Of a capture. */
export const captureLog = (log: Log, capture: string): RuleLog => {
  let lastFailure = ''
  const repaired = repairLog(log, 'rules', { capture })
  return {
    synced: (family, { work }, seconds) => {
      if (work === 'nothing') return
      const fields = { capture, family, work: workOf[work], ms: inMs(seconds) }
      log[work === 'full' ? 'info' : 'debug'](fields, 'rules are in the kernel')
    },
    repaired: (family, what, error) => repaired(what, error, family),
    failed: (what, why) => {
      const text = `${what}: ${why}`
      if (text !== lastFailure) log.warn({ capture, why }, `${what} failed`)
      lastFailure = text
    },
  }
}

const inMs = (seconds: number): number => Math.round(seconds * 1000)

/**
 * What another program changed, whatever it is: logged when it is put back, or can't be; the same
 * failure once.
 */
export const repairLog = (log: Log, of: 'rules' | 'addresses', by: LogFields = {}) => {
  const lastErrors = new Map<IpFamily | undefined, string>()
  return (what: string, error: string, family?: IpFamily): void => {
    const fields = { ...by, ...(family && { family }), what }
    const isNews = lastErrors.get(family) !== error
    lastErrors.set(family, error)
    const changed = `another program changed Usher's ${of}`
    if (error === '') log.warn(fields, `${changed}; restored them`)
    else
      log[isNews ? 'error' : 'debug'](
        { ...fields, error },
        `${changed}; restoring them failed`,
      )
  }
}
