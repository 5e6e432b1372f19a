/** Signals that ask a program to end. */
export const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Whether a process is there, be it only to be waited for. */
export const isThere = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Ends a process at once, if it has not ended by itself. */
export const kill = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
