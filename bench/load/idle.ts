import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { readUsage } from '../process/usage.ts'
import {
  type ConnectionOwner,
  type HttpConnection,
  type Line,
  lineTo,
  Pool,
} from './http.ts'
import { ErrorCounts, freeDescriptors, watchCpu } from './load.ts'
import type { LoadAnswer, Pids, Traffics } from './question.ts'

/** Connections being opened at a time: below every listen backlog. */
const parallel = 64
const answerWithinMs = 2000
/** When so many have failed one after the other, the rest is not tried. */
const hopeless = 64
/** For a proxy to close what was closed, and to come to rest. */
const settleMs = 800

/**
 * Growth of the proxy's resident memory, and of the kernel's, over idle connections: as
 * many as were asked for, or as this process may have open.
 */
export const measureIdle = async (
  { connections, ...page }: Traffics['idle'],
  pids: Pids,
): Promise<LoadAnswer> => {
  const errors = new ErrorCounts()
  const line = lineTo(page)
  const wanted = Math.min(connections, freeDescriptors())
  await warmUp(line, wanted, errors)
  const before = memoryOf(pids)
  const watch = watchCpu(pids)
  const idle = new IdleConnections(line, wanted, errors)
  try {
    await idle.open()
    await sleep(settleMs)
    const watched = watch()
    const { opened: done } = idle
    const after = memoryOf(pids)
    const memory = {
      userBytes: (after.user - before.user) / done,
      kernelBytes: (after.kernel - before.kernel) / done,
    }
    return {
      done,
      ...watched,
      errors: errors.counts,
      ...(Object.values(memory).every(Number.isFinite) && { memory }),
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
  for (let closed = 0; closed < wanted; closed += parallel) {
    const few = new IdleConnections(line, Math.min(parallel, wanted), errors)
    await few.open()
    const { opened } = few
    await few.close()
    if (opened === 0) break
  }
  await sleep(settleMs)
}

/**
 * Opens connections, exchanges one request on each (so that a proxy has certainly
 * connected to its backend), and leaves them idle. Those that fail are counted.
 */
class IdleConnections implements ConnectionOwner {
  readonly #pool: Pool
  readonly #errors: ErrorCounts
  readonly #wanted: number
  readonly #answered = new Set<HttpConnection>()
  #started = 0
  #failedInARow = 0
  #isClosing = false

  constructor(line: Line, wanted: number, errors: ErrorCounts) {
    this.#wanted = wanted
    this.#errors = errors
    this.#pool = new Pool({ line, answerWithinMs }, this)
  }

  get opened(): number {
    return this.#answered.size
  }

  get #opening(): number {
    return this.#pool.open.size - this.#answered.size
  }

  /** Resolves when each is open or has failed. */
  async open(): Promise<void> {
    this.#openMore()
    while (this.#opening > 0) await sleep(10)
  }

  onFree(connection: HttpConnection, at: number): void {
    if (!this.#answered.has(connection)) connection.ask(at, at)
  }

  onAnswer(connection: HttpConnection): void {
    this.#failedInARow = 0
    this.#answered.add(connection)
    this.#openMore()
  }

  onEnd(connection: HttpConnection, failure: string): void {
    this.#answered.delete(connection)
    if (this.#isClosing) return
    this.#failedInARow += 1
    this.#errors.add(failure || 'closed early')
    this.#openMore()
  }

  /** By the server, as far as it does so in time. */
  async close(): Promise<void> {
    this.#isClosing = true
    const limit = performance.now() + answerWithinMs
    for (const connection of this.#pool.open) connection.leave(performance.now())
    while (performance.now() < limit && this.#pool.open.size > 0) await sleep(5)
    await this.#pool.stop()
  }

  #openMore(): void {
    while (this.#opening < parallel && this.#started < this.#wanted) {
      if (this.#isClosing || this.#failedInARow >= hopeless) return
      this.#started += 1
      this.#pool.add()
    }
  }
}

/** NaN where the system doesn't tell. */
const memoryOf = (pids: Pids) => ({
  user: readUsage(pids.proxy)?.rssBytes ?? Number.NaN,
  kernel: kernelBytes(),
})

/** What the kernel books connections on, in kB; it counts for the whole machine. */
const kernelFields = ['Slab', 'PageTables', 'KernelStack'] as const

/**
 * Memory that the kernel uses for itself, by /proc/meminfo and, for what sockets hold
 * beyond their own size, /proc/net/sockstat (proc(5)).
 */
const kernelBytes = (): number => {
  const meminfo = readText('/proc/meminfo')
  if (meminfo === '') return Number.NaN
  let bytes = 0
  for (const field of kernelFields) bytes += kilobytesOf(meminfo, field)
  return bytes + tcpPages() * pageBytes()
}

const kilobytesOf = (text: string, field: string): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1024

const tcpPages = (): number =>
  Number(/^TCP: .*\bmem (\d+)/m.exec(readText('/proc/net/sockstat'))?.[1] ?? 0)

/** Not 4096 everywhere (arm64). */
const pageBytes = (): number =>
  kilobytesOf(readText('/proc/self/smaps'), 'KernelPageSize') || 4096

const readText = (path: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
