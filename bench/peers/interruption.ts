const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Does what must not be left half done: a signal only aborts, so that it can stop at the
 * next good place, and clean up behind itself. Rejects after a signal.
 */
export const runUninterrupted = async (
  say: (line: string) => void,
  what: (signal: AbortSignal) => Promise<void>,
): Promise<void> => {
  const interruption = new AbortController()
  const abort = (signal: NodeJS.Signals): void => {
    say(`${signal}: ending as soon as the package manager is done.`)
    interruption.abort(new Error(`interrupted by ${signal}`))
  }
  for (const signal of signals) process.on(signal, abort)
  try {
    await what(interruption.signal)
    interruption.signal.throwIfAborted()
  } finally {
    for (const signal of signals) process.off(signal, abort)
  }
}
