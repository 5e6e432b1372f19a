import { readFileSync } from 'node:fs'
import { machineCpuSeconds, ticksPerSecond } from '../process/usage.ts'

/** Fields of /proc/stat by place (proc(5)); guests are part of user and nice already. */
const [user, nice, system, irq, softirq, steal] = [0, 1, 2, 5, 6, 7]
const busyFields = [user, nice, system, irq, softirq, steal]

/**
 * CPU time used on the machine since it started: with interrupts, which processes are
 * charged for too (without them others would seem to use less than they do), and with what
 * a hypervisor has given to somebody else. Less exact where there is no /proc.
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
