import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'

export interface Usage {
  /** User and system time of all threads, and of children that have ended. */
  readonly cpuSeconds: number
  /** Resident set size. */
  readonly rssBytes: number
}

/** Ticks of /proc/PID/stat: USER_HZ is 100 on every architecture Node runs on. */
const ticksPerSecond = 100

/**
 * What processes have used so far together, from the kernel's accounting (proc(5)), so
 * that every program is measured by the same yardstick. One that is gone is its parent's
 * from then on. Undefined where there is no /proc, or none of them is left.
 */
export const readUsage = (pids: readonly number[]): Usage | undefined => {
  let [cpuSeconds, rssBytes, gone] = [0, 0, 0]
  for (const pid of pids) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      cpuSeconds += cpuSecondsOf(stat)
      rssBytes += rssBytesOf(status)
    } catch {
      gone += 1
    }
  }
  return gone > 0 && gone === pids.length ? undefined : { cpuSeconds, rssBytes }
}

const cpuSecondsOf = (stat: string): number => {
  const ticks = fieldsOf(stat)
    .slice(11, 15)
    .reduce((sum, field) => sum + Number(field), 0)
  return ticks / ticksPerSecond
}

/** The fields from the state on: the name before may hold spaces and brackets. */
const fieldsOf = (stat: string): readonly string[] =>
  stat.slice(stat.lastIndexOf(')') + 2).split(' ')

const rssBytesOf = (status: string): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024

/** A process and all its descendants that run now; only itself where there is no /proc. */
export const processTree = (root: number): readonly number[] => {
  const parents = parentsOfAll()
  const pids = [root]
  for (const pid of pids)
    for (const [child, parent] of parents) if (parent === pid) pids.push(child)
  return pids
}

/** Whether a process runs; one that is only to be waited for does not. */
export const runs = (pid: number): boolean => {
  try {
    return fieldsOf(readFileSync(`/proc/${pid}/stat`, 'utf8'))[0] !== 'Z'
  } catch {
    return false
  }
}

/** Every process with its parent. Not every kernel has /proc/PID/task/TID/children. */
const parentsOfAll = (): ReadonlyMap<number, number> => {
  const parents = new Map<number, number>()
  for (const pid of processIds()) {
    try {
      parents.set(pid, Number(fieldsOf(readFileSync(`/proc/${pid}/stat`, 'utf8'))[1]))
    } catch {
      // It has ended since.
    }
  }
  return parents
}

const processIds = (): readonly number[] => {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger)
  } catch {
    return []
  }
}

/** CPU time used by all processes of the machine since it started. */
const machineCpuSeconds = (): number => {
  let milliseconds = 0
  for (const { times } of cpus()) milliseconds += times.user + times.nice + times.sys
  return milliseconds / 1000
}

/** Fields of /proc/stat by place (proc(5)); guests are part of user and nice already. */
const [user, nice, system, irq, softirq, steal] = [0, 1, 2, 5, 6, 7]
const busyFields = [user, nice, system, irq, softirq, steal]

/**
 * CPU time used on the machine since it started: with interrupts, which processes are
 * charged for too (without them others would seem to use less than they do), and with what
 * a hypervisor has given to other guests (steal). Less exact where there is no /proc.
 */
export const machineBusySeconds = (): number => {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1)
    return busySecondsOf(line)
  } catch {
    return machineCpuSeconds()
  }
}

/** Of the first line of /proc/stat, `cpu  USER NICE SYSTEM IDLE IOWAIT IRQ ...`. */
export const busySecondsOf = (line: string): number => {
  const ticks = line.trim().split(/\s+/).slice(1).map(Number)
  return busyFields.reduce((sum, field) => sum + (ticks[field] ?? 0), 0) / ticksPerSecond
}
