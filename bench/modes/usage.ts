import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { processTree, readUsage } from '../process/usage.ts'

/** CPU time, and time. Milliseconds. */
export interface Spent {
  readonly wallMs: number
  /** Of this process. */
  readonly cpuMs: number
  /** Of its children, those that run and those that have ended: a multiple of 10. */
  readonly toolCpuMs: number
}

/** Starts to measure; the function says what was spent since. */
export const spending = (): (() => Spent) => {
  const tools = toolCpuMs()
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  return () => {
    const wallMs = performance.now() - startedAt
    const { user, system } = process.cpuUsage(cpu)
    return { wallMs, cpuMs: (user + system) / 1000, toolCpuMs: toolCpuMs() - tools }
  }
}

/** The kernel counts children in ticks of 10 ms, but adds them up exactly. */
const toolCpuMs = (): number => {
  const children = processTree(process.pid).filter(pid => pid !== process.pid)
  const running = readUsage(children)?.cpuSeconds ?? 0
  return running * 1000 + endedCpuMs()
}

const endedCpuMs = (): number => {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[13]) + Number(fields[14])) * 10
  } catch {
    return 0
  }
}

/** How often a tool's memory is looked at, in milliseconds. */
const sampleMs = 5

/**
 * Follows the most memory that a process has had. What it takes in its last 5 ms may be missed;
 * a tool has it all before the kernel does its part.
 */
export const watchMemory = (pid: number | undefined) => {
  let peak = 0
  const sample = (): void => void (peak = Math.max(peak, peakRssBytes(pid)))
  const timer = setInterval(sample, sampleMs)
  return { peak: () => peak, stop: () => clearInterval(timer) }
}

/** 0 when it has ended. */
const peakRssBytes = (pid: number | undefined): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}
