/** That somebody asked the bench to end. */
export interface Interruption {
  /** Aborted by the first signal: measuring ends, and what there is is told. */
  readonly signal: AbortSignal
  /** Signals do again what they did before. */
  stop(): void
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** A second signal ends the process at once, with code 130. */
export const listenForInterruption = (): Interruption => {
  const interrupt = new AbortController()
  const onSignal = (): void => {
    if (interrupt.signal.aborted) process.exit(130)
    interrupt.abort()
  }
  for (const name of signals) process.on(name, onSignal)
  return {
    signal: interrupt.signal,
    stop: () => {
      for (const name of signals) process.off(name, onSignal)
    },
  }
}
