import { spawn, type ChildProcess } from 'node:child_process'
import type { Readable } from 'node:stream'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { stopProcess } from '../process/child.ts'
import { processTree, readUsage, type Usage } from '../process/usage.ts'

const program = fileURLToPath(new URL('../../dist/usher.js', import.meta.url))
const observer = import.meta.resolve('./observe.mjs')

/** A sync that came into effect. Times are Unix milliseconds. */
export interface Applied {
  readonly at: number
  /** When the changes in it were made. */
  readonly triggerTimes: readonly number[]
}

/** The longest time for which the event loop stood still after `from`, until the next. */
export interface LoopBlock {
  /** Unix milliseconds. */
  readonly from: number
  readonly blockedMs: number
}

/** Usher as a process, with what it tells about itself. */
export interface UsherProcess {
  readonly pid: number
  readonly startedAt: number
  /** Unix milliseconds of the log record `serving`. Rejects when Usher ends before. */
  readonly serving: Promise<number>
  readonly applied: readonly Applied[]
  readonly blocks: readonly LoopBlock[]
  /** Records of warnings and errors. */
  readonly complaints: readonly string[]
  /** Of both its processes, as far as they run now. */
  usage(): Usage
  /** The most that both had together, looked at every 50 ms. */
  peakRssBytes(): number
  stop(): Promise<void>
}

const pollEveryMs = 50
const nothing: Usage = { cpuSeconds: 0, rssBytes: 0 }

const mode = ['--proxy-mode', 'userspace', '--capture', 'none']

const loopbackEndpoints = new URL(
  '../../test/support/loopback-endpoints.mjs',
  import.meta.url,
).href

export const startUsher = (flags: readonly string[]): UsherProcess => {
  const startedAt = unixNow()
  const argv = [
    '--import',
    observer,
    '--import',
    loopbackEndpoints,
    program,
    'run',
    ...mode,
    ...flags,
  ]
  const child = spawn(process.execPath, argv, {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`could not start ${program}`)
  const applied: Applied[] = []
  const blocks: LoopBlock[] = []
  const complaints: string[] = []
  readLines(child.stdio[3] as Readable, text => {
    const reported = JSON.parse(text) as Reported
    if (reported.kind === 'applied') applied.push(reported)
    else blocks.push(reported)
  })
  const serving = servingOf(child, complaints)
  // It may fail while there is no await on it.
  serving.catch(() => undefined)
  const usage = (): Usage => readUsage(processTree(pid)) ?? nothing
  let peakRss = 0
  const polling = setInterval(() => {
    peakRss = Math.max(peakRss, usage().rssBytes)
  }, pollEveryMs)
  return {
    pid,
    startedAt,
    serving,
    applied,
    blocks,
    complaints,
    usage,
    peakRssBytes: () => peakRss,
    stop: async () => {
      clearInterval(polling)
      await stopProcess(child)
    },
  }
}

type Reported =
  ({ readonly kind: 'applied' } & Applied) | ({ readonly kind: 'loop' } & LoopBlock)

interface LogRecord {
  readonly level: string
  readonly msg: string
}

const servingOf = (child: ChildProcess, complaints: string[]): Promise<number> =>
  new Promise((resolve, reject) => {
    readLines(child.stdout as Readable, text => {
      const { level, msg } = JSON.parse(text) as LogRecord
      if (msg === 'serving') resolve(unixNow())
      if (level === 'warn' || level === 'error') complaints.push(text)
    })
    child.once('exit', code =>
      reject(new Error(`usher ended (${code}): ${complaints.join('\n')}`)),
    )
  })

const readLines = (stream: Readable, take: (line: string) => void): void => {
  createInterface(stream).on('line', take)
}

/** Unix time in milliseconds, with fractions. */
export const unixNow = (): number => performance.timeOrigin + performance.now()
