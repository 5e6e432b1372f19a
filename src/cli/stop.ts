import type { Log } from '../observe/log.ts'

/** Why Usher is to end, and the exit code that says so. */
export interface StopReason {
  readonly code: number
  /** `SIGTERM`, `SIGINT`, or what else has happened. */
  readonly reason: string
}

/** The exit code when the configuration file changed: start me again (EX_TEMPFAIL). */
export const restartCode = 75

/** A request that Usher ends: the first SIGTERM, SIGINT or `request` counts. */
export class Stop {
  readonly requested: Promise<StopReason>
  /** What `requested` has resolved to; undefined until then. */
  reason: StopReason | undefined
  #resolve: (reason: StopReason) => void = () => {}

  constructor() {
    this.requested = new Promise(resolve => (this.#resolve = resolve))
  }

  request(reason: StopReason): void {
    this.reason ??= reason
    this.#resolve(reason)
  }
}

/** Listens for signals; a second one ends the process at once, with 128 + its number. */
export const stopOnSignals = (log: Log): Stop => {
  const stop = new Stop()
  const onSignal = (signal: NodeJS.Signals, number: number): void => {
    if (stop.reason !== undefined) {
      log.warn({ signal }, 'second signal: ending at once')
      process.exit(128 + number)
    }
    stop.request({ code: 0, reason: signal })
  }
  process.on('SIGTERM', () => onSignal('SIGTERM', 15))
  process.on('SIGINT', () => onSignal('SIGINT', 2))
  return stop
}
