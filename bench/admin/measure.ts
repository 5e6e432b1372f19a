import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startApiServer } from '../control/api-server.ts'
import type { ControlOptions } from '../control/options.ts'
import { startUsher, unixNow, type UsherProcess } from '../control/usher.ts'
import { benchProgram, startChild } from '../process/child.ts'
import { nodeObject } from '../../test/support/api-server/builders.ts'
import { freeTcpPort } from '../../test/support/ports.ts'
import type { CrowdQuestion } from './crowd-main.ts'

/** One answer, or one that was taken as a whole. */
export interface Request {
  readonly ms: number
  readonly bytes: number
  /** The longest time for which Usher's event loop stood still meanwhile. */
  readonly longestBlockMs: number
}

export interface AdminFigures {
  /** By what was asked: as often as it was. */
  readonly requests: ReadonlyMap<string, readonly Request[]>
  /** Milliseconds of answers to /healthz, alone and with the crowd; of those that failed Infinity. */
  readonly healthzMs: {
    readonly alone: readonly number[]
    readonly crowd: readonly number[]
  }
}

const host = '127.0.0.1'
const rounds = 7
const crowdClients = 300
const healthzSeconds = 10
const healthzEveryMs = 20
const answerWithinMs = 10_000
/** The observer reports every 50 ms. */
const reportedMs = 150
const program = fileURLToPath(new URL('../../dist/usher.js', import.meta.url))

/** What it costs to look at an Usher with many Services, and whether probes get in beside a crowd. */
export const measureAdmin = async (
  options: ControlOptions,
  say: (what: string) => void,
  signal: AbortSignal,
): Promise<AdminFigures> => {
  const closers: (() => unknown)[] = []
  try {
    say('admin: filling the API server')
    const api = await startApiServer(options)
    closers.push(() => api.stop())
    await api.apply(nodeObject('node-1'))
    const [healthz, metrics] = [await freeTcpPort(host), await freeTcpPort(host)]
    const usher = startUsher([
      `--kubeconfig=${api.access.kubeconfig}`,
      '--hostname-override=node-1',
      '--bind-address=127.0.0.1',
      `--healthz-bind-address=${host}:${healthz}`,
      `--metrics-bind-address=${host}:${metrics}`,
      '--drain-timeout=0',
    ])
    closers.push(() => usher.stop())
    await usher.serving
    await sleep(2000, undefined, { signal })
    const requests = new Map<string, readonly Request[]>()
    for (const [name, take] of waysToRequest(metrics)) {
      say(`admin: ${name}`)
      const found: Request[] = []
      for (let round = 0; round < rounds && !signal.aborted; round += 1)
        found.push(await requestOnce(usher, take))
      requests.set(name, found)
    }
    say('admin: /healthz alone')
    const alone = await askHealthz(healthz, signal)
    const crowd = startChild(benchProgram('admin/crowd-main'))
    closers.push(() => crowd.stop())
    const question: CrowdQuestion = {
      servers: [
        { port: metrics, path: '/status' },
        { port: healthz, path: '/healthz' },
      ],
      clients: crowdClients,
    }
    await crowd.ask(question, answerWithinMs)
    say('admin: /healthz beside a crowd')
    await sleep(1000, undefined, { signal })
    return { requests, healthzMs: { alone, crowd: await askHealthz(healthz, signal) } }
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

/** Each gives the bytes that came. */
type Take = () => Promise<number>

const waysToRequest = (
  metrics: number,
): readonly (readonly [name: string, take: Take])[] => [
  ['/status', () => bytesOf(metrics, '/status')],
  ['the page until it has all rows', () => bytesOfPage(metrics)],
  ['usher get services', () => bytesPrinted(metrics, 'get', 'services')],
  ['usher status', () => bytesPrinted(metrics, 'status')],
]

const requestOnce = async (usher: UsherProcess, take: Take): Promise<Request> => {
  const from = unixNow()
  const startedAt = performance.now()
  const bytes = await take()
  const ms = performance.now() - startedAt
  const until = unixNow()
  await sleep(reportedMs)
  const blocks = usher.blocks.filter(
    block => block.from >= from - 50 && block.from <= until,
  )
  return { ms, bytes, longestBlockMs: Math.max(0, ...blocks.map(one => one.blockedMs)) }
}

/** Rejects where the answer is not 200, or does not come. */
const bytesOf = async (port: number, path: string): Promise<number> => {
  const signal = AbortSignal.timeout(answerWithinMs)
  const sent = get({ host, port, path, agent: false, signal })
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let bytes = 0
  for await (const chunk of response) bytes += (chunk as Buffer).length
  if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`)
  return bytes
}

/** The page is there as a whole with the first tick of its stream. */
const bytesOfPage = async (port: number): Promise<number> => {
  let bytes = await bytesOf(port, '/')
  const sent = get({ host, port, path: '/stream', agent: false })
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  let last = ''
  for await (const chunk of response) {
    bytes += (chunk as Buffer).length
    last = (last.slice(-20) + String(chunk)).slice(-4096)
    if (last.includes('event: tick')) return bytes
  }
  throw new Error('the stream has ended before it had told all')
}

/** By a command of Usher's, as a user runs it. */
const bytesPrinted = async (
  metrics: number,
  ...args: readonly string[]
): Promise<number> => {
  const argv = [program, ...args, '--address', `${host}:${metrics}`]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  let bytes = 0
  for await (const chunk of child.stdout) bytes += (chunk as Buffer).length
  const [code] = (await ended) as [number | null]
  if (code !== 0) throw new Error(`usher ${args.join(' ')} ended with ${code}`)
  return bytes
}

const askHealthz = async (
  port: number,
  signal: AbortSignal,
): Promise<readonly number[]> => {
  const took: number[] = []
  const until = performance.now() + healthzSeconds * 1000
  while (performance.now() < until && !signal.aborted) {
    const startedAt = performance.now()
    const ok = await bytesOf(port, '/healthz').then(
      () => true,
      () => false,
    )
    took.push(ok ? performance.now() - startedAt : Infinity)
    await sleep(healthzEveryMs)
  }
  return took
}
