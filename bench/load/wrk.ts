import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../services.ts'
import { dialEach } from './first-connections.ts'
import { ErrorCounts, type Findings } from './load.ts'
import { settleMs, watchCpu } from './measure.ts'
import { PacedConnectionsLoad } from './paced-connections.ts'
import type { Connections, LoadAnswer, LoadQuestion, Requests } from './question.ts'
import { runTool, type ToolResult } from './run-tool.ts'
import { readWrkReport, type WrkReport, wrkScript } from './wrk-script.ts'

/** Beyond its window; a target that takes no connection holds wrk up before that. */
const patienceMs = 4000
/** Beside wrk(1), which doesn't tell how long connecting takes. */
const probe = { perSecond: 20, timeoutMs: 2000 }

type Question = (Requests | Connections) & Pick<LoadQuestion, 'seconds' | 'pids'>

/**
 * Lets wrk(1) ask, on one thread; what a look at the CPU times tells is of its whole run.
 * Rejects when it is not installed.
 */
export const measureWrk = async (question: Question): Promise<LoadAnswer> => {
  const directory = await mkdtemp(join(tmpdir(), 'usher-bench-'))
  try {
    const script = join(directory, 'report.lua')
    await writeFile(script, wrkScript(question.kind === 'connections'))
    return await measureWith(question, script)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

const measureWith = async (question: Question, script: string): Promise<LoadAnswer> => {
  const seconds = Math.max(1, Math.ceil(question.seconds))
  const probing = startProbe(question)
  try {
    await probing?.ready()
    // What the one before has left open is closed by then.
    await sleep(settleMs)
    probing?.openWindow()
    const watch = watchCpu(question.pids)
    const result = await runTool(
      'wrk',
      wrkArguments(question, seconds, script),
      seconds * 1000 + patienceMs,
    )
    const watched = watch()
    await probing?.closeWindow()
    const found = await withoutRefused(reportOf(result, watched.seconds), question)
    return { ...watched, ...found, ...probed(probing, found.errors) }
  } finally {
    await probing?.stop()
  }
}

const startProbe = (question: Question): PacedConnectionsLoad | undefined =>
  question.kind === 'connections'
    ? new PacedConnectionsLoad({ ...question, ...probe })
    : undefined

const wrkArguments = (question: Question, seconds: number, script: string) => [
  '-t1',
  `-c${question.kind === 'requests' ? question.connections : question.parallel}`,
  `-d${seconds}s`,
  '-s',
  script,
  urlOf(question.to, question.path),
]

const urlOf = ({ address, port }: Endpoint, path: string): string =>
  `http://${address.includes(':') ? `[${address}]` : address}:${port}${path}`

const reportOf = (result: ToolResult, seconds: number): WrkReport =>
  readWrkReport(result.output) ?? {
    done: 0,
    refused: 0,
    seconds,
    errors: { [`wrk: ${result.complaint || 'no report'}`]: 1 },
  }

/**
 * wrk doesn't tell a server that has no such page (404 to everything, which is as good an
 * answer as any) from a proxy whose backend is gone (502): one more request does.
 */
const withoutRefused = async (
  { refused, ...report }: WrkReport,
  { to, path }: Question,
): Promise<Omit<WrkReport, 'refused'>> => {
  if (refused === 0) return report
  const asked = refused < report.done ? undefined : await dialEach({ to: [to], path })
  if (asked?.done === 1) return report
  const errors = { ...report.errors, 'status of 400 or above': refused }
  return { ...report, done: report.done - refused, errors }
}

/** In place of wrk's latency, which is of requests and not of whole connections. */
const probed = (
  probing: PacedConnectionsLoad | undefined,
  ofWrk: LoadAnswer['errors'],
): Findings & Partial<Pick<LoadAnswer, 'errors'>> => {
  if (probing === undefined) return {}
  const { connect, latency } = probing.findings()
  const errors = new ErrorCounts()
  errors.addAll(ofWrk)
  errors.addAll(probing.errors.counts)
  return {
    errors: errors.counts,
    ...(connect && { connect }),
    ...(latency && { latency }),
  }
}
