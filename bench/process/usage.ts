import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

export interface Usage {
  /** User and system time of all threads since the process started. */
  readonly cpuSeconds: number
  /** Resident set size. */
  readonly rssBytes: number
}

/** Ticks of /proc/PID/stat: USER_HZ is 100 on every architecture Node runs on. */
const ticksPerSecond = 100

/**
 * What a process has used so far, from the kernel's accounting (proc(5)), so that every
 * program is measured by the same yardstick. Undefined where there is no /proc or the
 * process is gone.
 */
export const readUsage = (pid: number): Usage | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return { cpuSeconds: cpuSecondsOf(stat), rssBytes: rssBytesOf(status) }
  } catch {
    return undefined
  }
}

const cpuSecondsOf = (stat: string): number => {
  // The command name may hold spaces and brackets: count fields after the last bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

const rssBytesOf = (status: string): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024

/** CPU time used by all processes of the machine since it started. */
export const machineCpuSeconds = (): number => {
  let milliseconds = 0
  for (const { times } of cpus()) milliseconds += times.user + times.nice + times.sys
  return milliseconds / 1000
}
