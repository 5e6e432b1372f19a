import { processTree } from '../../../../src/bench/process/usage.ts'

/** Whether a process runs, be it only to be waited for. */
const runs = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** A process with its descendants as they are now, to see later which of them still run. */
export const family = (pid: number) => {
  const members = processTree(pid)
  return { size: members.length, alive: () => members.filter(runs) }
}
