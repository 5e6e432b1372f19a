import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CrowdCalls } from './crowd-main.ts'
import type { ControlOptions } from './options.ts'
import {
  count,
  percentileRows,
  roundsOf,
  type Say,
  type Take,
  told,
  toldByRounds,
  usherName,
} from './record.ts'
import { closing, openControlPlane, unixNow, type UsherProcess } from './usher.ts'
import { loopbackUsher } from '../../test/support/usher-program.ts'
import { benchProgram, callsTo, startChild } from '../process/child.ts'
import type { ScenarioRecord } from '../record/record.ts'

const host = '127.0.0.1'
const rounds = 7
const crowdClients = 300
const healthzSeconds = 10
const healthzEveryMs = 20
const answerWithinMs = 10_000
/** The observer reports every 50 ms. */
const [reportEveryMs, reportedMs] = [50, 150]

/** What it costs to look at an Usher with many Services, and whether probes get in beside a crowd. */
export const measureAdmin = (
  options: ControlOptions,
  say: Say,
  signal: AbortSignal,
  take: Take,
): Promise<void> =>
  closing(async closers => {
    const plane = await openControlPlane(options, host, say, closers)
    const { usher, healthz, metrics } = plane
    await usher.serving
    await sleep(2000, undefined, { signal })
    for (const [name, ask] of waysToAsk(metrics)) {
      say(`admin: ${name}`)
      const found: Answered[] = []
      for (let round = 0; round < rounds && !signal.aborted; round += 1)
        found.push(await askOnce(usher, ask))
      take([answersScenario(name, found, options)])
    }
    say('admin: /healthz alone')
    const alone = await askHealthz(healthz, signal)
    take([healthzScenario('alone', '/healthz, alone', alone)])
    const crowd = startChild(benchProgram('control/crowd-main'))
    closers.push(() => crowd.stop())
    await callsTo<CrowdCalls>(crowd, answerWithinMs).crowd(
      [
        [metrics, '/status'],
        [healthz, '/healthz'],
      ],
      crowdClients,
    )
    say('admin: /healthz beside a crowd')
    await sleep(1000, undefined, { signal })
    const title = `/healthz beside ${crowdClients} slow and ${crowdClients} hostile clients`
    take([healthzScenario('crowd', title, await askHealthz(healthz, signal))])
  })

/** Each gives the bytes that came. */
type Ask = () => Promise<number>

const waysToAsk = (metrics: string): readonly (readonly [name: string, ask: Ask])[] => [
  ['/status', () => bytesOf(metrics, '/status')],
  ['the page until it has all rows', () => bytesOfPage(metrics)],
  ['usher get services', () => bytesPrinted(metrics, 'get', 'services')],
  ['usher status', () => bytesPrinted(metrics, 'status')],
]

/** One answer that was taken as a whole. */
interface Answered {
  readonly ms: number
  readonly bytes: number
  /** The longest time for which Usher's event loop stood still meanwhile. */
  readonly longestBlockMs: number
}

const askOnce = async (usher: UsherProcess, ask: Ask): Promise<Answered> => {
  const from = unixNow()
  const bytes = await ask()
  const until = unixNow()
  await sleep(reportedMs)
  const blocks = usher.blocks
    .filter(block => block.from >= from - reportEveryMs && block.from <= until)
    .map(({ blockedMs }) => blockedMs)
  return { ms: until - from, bytes, longestBlockMs: Math.max(0, ...blocks) }
}

/** Rejects where the answer is not 200, or does not come. */
const bytesOf = async (address: string, path: string): Promise<number> => {
  const signal = AbortSignal.timeout(answerWithinMs)
  const response = await responseOf(`http://${address}${path}`, signal)
  let bytes = 0
  for await (const chunk of response) bytes += (chunk as Buffer).length
  if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`)
  return bytes
}

/** On a connection of its own. */
const responseOf = async (
  url: string,
  signal?: AbortSignal,
): Promise<IncomingMessage> => {
  const sent = get(url, { agent: false, ...(signal && { signal }) })
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}

/** The page is there as a whole with the first tick of its stream. */
const bytesOfPage = async (address: string): Promise<number> => {
  let bytes = await bytesOf(address, '/')
  let last = ''
  for await (const chunk of await responseOf(`http://${address}/stream`)) {
    bytes += (chunk as Buffer).length
    last = (last.slice(-20) + String(chunk)).slice(-4096)
    if (last.includes('event: tick')) return bytes
  }
  throw new Error('the stream has ended before it had told all')
}

/** By a command of Usher's, as a user runs it. */
const bytesPrinted = async (
  address: string,
  ...args: readonly string[]
): Promise<number> => {
  const argv = [loopbackUsher, ...args, '--address', address]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  let bytes = 0
  for await (const chunk of child.stdout) bytes += (chunk as Buffer).length
  const [code] = (await ended) as [number | null]
  if (code !== 0) throw new Error(`usher ${args.join(' ')} ended with ${code}`)
  return bytes
}

/** Milliseconds of each answer; of those that failed Infinity. */
const askHealthz = async (
  address: string,
  signal: AbortSignal,
): Promise<readonly number[]> => {
  const took: number[] = []
  const until = performance.now() + healthzSeconds * 1000
  while (performance.now() < until && !signal.aborted) {
    const startedAt = performance.now()
    const ok = await bytesOf(address, '/healthz').then(
      () => true,
      () => false,
    )
    took.push(ok ? performance.now() - startedAt : Infinity)
    await sleep(healthzEveryMs)
  }
  return took
}

const group = 'Looking at it'

const answersScenario = (
  name: string,
  found: readonly Answered[],
  { services }: ControlOptions,
): ScenarioRecord =>
  toldByRounds(
    {
      name: `admin-${name.replaceAll(/[^a-z]+/g, '-').replace(/^-/, '')}`,
      group,
      title: `${name}, ${count(services)} Services`,
      about:
        'From the question until the answer is there as a whole; one after the other.',
      outcomes: roundsOf(
        usherName,
        found.map(({ ms, bytes, longestBlockMs: block }) => ({
          ms,
          block,
          size: bytes / 1e6,
        })),
      ),
    },
    [
      ['ms', 'Whole', 'ms', 0, undefined, 300],
      ['block', 'Longest block of the loop', 'ms', 1, undefined, 20],
      ['size', 'Size', 'MB', 2, undefined],
    ],
  )

const healthzScenario = (
  name: string,
  title: string,
  tookMs: readonly number[],
): ScenarioRecord => {
  const answered = tookMs.filter(Number.isFinite)
  return told(
    {
      name: `admin-healthz-${name}`,
      group,
      title,
      about:
        'Each request has a connection of its own, from another address than the crowd has.',
    },
    [
      ...percentileRows(answered, 50),
      ['failed', 'Without an answer', '', 0, tookMs.length - answered.length, 0],
    ],
  )
}
