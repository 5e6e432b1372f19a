import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { freeDescriptors } from './descriptors.ts'
import { IdleConnections } from './idle-connections.ts'
import { type Line, lineTo } from './line.ts'
import { ErrorCounts } from './load.ts'
import { watchCpu } from './measure.ts'
import type { Idle, LoadAnswer, Pids } from './question.ts'
import { readUsage } from '../process/usage.ts'

const warmUpAtOnce = 64
/** For a proxy to close what was closed, and to come to rest. */
const settleMs = 800

/**
 * Growth of the proxy's resident memory, and of the kernel's, over idle connections: as
 * many as were asked for, or as this process may have open.
 */
export const measureIdle = async (
  { to, path, connections }: Omit<Idle, 'kind'>,
  pids: Pids,
): Promise<LoadAnswer> => {
  const errors = new ErrorCounts()
  const line = lineTo(to, path)
  const wanted = Math.min(connections, freeDescriptors())
  await warmUp(line, wanted, errors)
  const before = snapshot(pids)
  const watch = watchCpu(pids)
  const idle = new IdleConnections(line, wanted, errors)
  try {
    await idle.open()
    await sleep(settleMs)
    const watched = watch()
    const done = idle.opened
    const memory = growth(before, snapshot(pids), done)
    return {
      done,
      ...watched,
      errors: errors.counts,
      ...(memory && { memory }),
      ...(done < connections && { tried: wanted }),
    }
  } finally {
    await idle.close()
  }
}

/**
 * As many are opened and closed before, so that what a process needs once (compiled code,
 * a young generation of full size) is not booked on the idle ones; but only a few at once,
 * for otherwise those would find their memory in what the others left free.
 */
const warmUp = async (line: Line, wanted: number, errors: ErrorCounts): Promise<void> => {
  for (let closed = 0; closed < wanted; closed += warmUpAtOnce) {
    const few = new IdleConnections(line, Math.min(warmUpAtOnce, wanted), errors)
    await few.open()
    const { opened } = few
    await few.close()
    if (opened === 0) break
  }
  await sleep(settleMs)
}

const snapshot = (pids: Pids) => ({
  user: readUsage(pids.proxy)?.rssBytes,
  kernel: kernelBytes(),
})

type Snapshot = ReturnType<typeof snapshot>

const growth = (
  before: Snapshot,
  after: Snapshot,
  opened: number,
): LoadAnswer['memory'] => {
  const [user, kernel] = [after.user, after.kernel]
  if (user === undefined || kernel === undefined || opened === 0) return undefined
  if (before.user === undefined || before.kernel === undefined) return undefined
  return {
    userBytes: (user - before.user) / opened,
    kernelBytes: (kernel - before.kernel) / opened,
  }
}

/** What the kernel books connections on, in kB; it counts for the whole machine. */
const kernelFields = ['Slab', 'PageTables', 'KernelStack'] as const

/**
 * Memory that the kernel uses for itself, by /proc/meminfo and, for what sockets hold
 * beyond their own size, /proc/net/sockstat (proc(5)). Undefined where there is no /proc.
 */
const kernelBytes = (): number | undefined => {
  const meminfo = readText('/proc/meminfo')
  if (meminfo === undefined) return undefined
  let bytes = 0
  for (const field of kernelFields) bytes += kilobytesOf(meminfo, field)
  return bytes + tcpPages() * pageBytes()
}

const kilobytesOf = (text: string, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024

const tcpPages = (): number =>
  Number(/^TCP: .*\bmem (\d+)/m.exec(readText('/proc/net/sockstat') ?? '')?.[1] ?? 0)

/** Not 4096 everywhere (arm64). */
const pageBytes = (): number =>
  kilobytesOf(readText('/proc/self/smaps') ?? '', 'KernelPageSize') || 4096

const readText = (path: string): string | undefined => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
