import type { Log } from '../observe/log.ts'

/** Why Usher is to end, and the exit code that says so. */
export interface StopReason {
  readonly code: number
  /** `SIGTERM`, `SIGINT`, or what else has happened. */
  readonly reason: string
  /** Clients are left that don't know of it, and may come for a while yet. */
  readonly mayLinger?: boolean
  /** Another Usher has what clients come to. */
  readonly isReplaced?: boolean
}

/** The exit code when the configuration file changed: start me again (EX_TEMPFAIL). */
export const restartCode = 75

/** A request that Usher ends: the first SIGTERM, SIGINT or `request` counts. */
export class Stop {
  readonly requested: Promise<StopReason>
  /** What `requested` has resolved to; undefined until then. */
  reason: StopReason | undefined
  /** Resolves at the first `ask`, which may come when `requested` has long resolved. */
  readonly asked: Promise<void>
  #resolve: (reason: StopReason) => void = () => {}
  #resolveAsked: () => void = () => {}
  #wasAsked = false
  #lingered: (() => void) | undefined

  constructor() {
    this.requested = new Promise(resolve => (this.#resolve = resolve))
    this.asked = new Promise(resolve => (this.#resolveAsked = resolve))
  }

  request(reason: StopReason): void {
    this.reason ??= reason
    this.#resolve(reason)
    // Clients are another Usher's from now on.
    if (reason.isReplaced === true) this.#hurry()
  }

  /** Resolves after `ms` milliseconds, or at the next `ask`. */
  async linger(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>(resolve => {
      this.#lingered = resolve
      timer = setTimeout(resolve, ms)
    })
    this.#lingered = undefined
    clearTimeout(timer)
  }

  /**
   * As a signal does: the first time requests the end, a later one ends the lingering. False when
   * there is nothing left to hurry.
   */
  ask(reason: string): boolean {
    const isFirst = !this.#wasAsked
    this.#wasAsked = true
    this.#resolveAsked()
    // What is replaced ends by itself; that it is told so too is no hurry.
    if (this.reason !== undefined)
      return (isFirst && this.reason.isReplaced === true) || this.#hurry()
    this.request({ code: 0, reason, mayLinger: true })
    return true
  }

  #hurry(): boolean {
    const lingered = this.#lingered
    this.#lingered = undefined
    lingered?.()
    return lingered !== undefined
  }
}

/**
 * Listens for signals. One that finds Usher draining ends the process at once: with 128 + its
 * number or, where it is the regular end of a container, with 0.
 */
export const stopOnSignals = (log: Log, alwaysZero: boolean): Stop => {
  const stop = new Stop()
  const onSignal = (signal: NodeJS.Signals, number: number): void => {
    if (stop.ask(signal)) return
    log.warn({ signal }, 'second signal: ending at once')
    process.exit(alwaysZero ? 0 : 128 + number)
  }
  process.on('SIGTERM', () => onSignal('SIGTERM', 15))
  process.on('SIGINT', () => onSignal('SIGINT', 2))
  return stop
}
