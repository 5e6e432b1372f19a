import type { Log } from '../observe/log.ts'

/** Why Usher is to end, and the exit code that says so. */
export interface StopReason {
  readonly code: number
  /** `SIGTERM`, `SIGINT`, or what else has happened. */
  readonly reason: string
}

/** The exit code when the configuration file changed: start me again (EX_TEMPFAIL). */
export const restartCode = 75

/** Somebody's wish that Usher ends: the first SIGTERM, SIGINT or `request` counts. */
export interface Stop {
  readonly requested: Promise<StopReason>
  request(reason: StopReason): void
}

/** Listens for signals; a second one ends the process at once, with 128 + its number. */
export const stopOnSignals = (log: Log): Stop => {
  let request: (reason: StopReason) => void = () => {}
  let stopping = false
  const requested = new Promise<StopReason>(resolve => {
    request = reason => {
      stopping = true
      resolve(reason)
    }
  })
  const onSignal = (signal: NodeJS.Signals, number: number): void => {
    if (stopping) {
      log.warn({ signal }, 'second signal: ending at once')
      process.exit(128 + number)
    }
    request({ code: 0, reason: signal })
  }
  process.on('SIGTERM', () => onSignal('SIGTERM', 15))
  process.on('SIGINT', () => onSignal('SIGINT', 2))
  return { requested, request: reason => request(reason) }
}
