import { endingSignals } from './process/signals.ts'

/** That the bench was asked to end, or can't go on. */
export interface Interruption {
  /** Aborted by the first signal: measuring ends, and what there is is reported. */
  readonly signal: AbortSignal
  /** Why it can't go on; '' when it was asked to end, or goes on. */
  readonly why: () => string
  /** Ends measuring because something that it needs is gone; `why` in words. */
  readonly giveUp: (why: string) => void
  /** Signals do again what they did before. */
  readonly stop: () => void
}

/**
 * A second signal ends the process at once, with code 130. A reader that goes away
 * (`usher bench | head -1`; `gone`) or a terminal that is closed ask it to end, too.
 */
export const listenForInterruption = (gone: AbortSignal): Interruption => {
  const interrupt = new AbortController()
  const signal = AbortSignal.any([interrupt.signal, gone])
  let reason = ''
  const onSignal = (): void => {
    if (signal.aborted) process.exit(130)
    interrupt.abort()
  }
  for (const name of endingSignals) process.on(name, onSignal)
  return {
    signal,
    why: () => reason,
    giveUp: why => {
      if (signal.aborted) return
      reason = why
      interrupt.abort()
    },
    stop: () => {
      for (const name of endingSignals) process.off(name, onSignal)
    },
  }
}
