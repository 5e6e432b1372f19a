import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Endpoint } from '../services.ts'
import { ErrorCounts, type Findings } from './load.ts'
import { watchCpu } from './measure.ts'
import { PacedConnectionsLoad } from './paced-connections.ts'
import type { Connections, LoadAnswer, LoadQuestion, Requests } from './question.ts'
import { runTool, type ToolResult } from './run-tool.ts'
import { readWrkReport, wrkScript } from './wrk-script.ts'

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
    probing?.openWindow()
    const watch = watchCpu(question.pids)
    const result = await runTool(
      'wrk',
      wrkArguments(question, seconds, script),
      seconds * 1000 + patienceMs,
    )
    const watched = watch()
    await probing?.closeWindow()
    return {
      ...watched,
      ...reportOf(result, watched.seconds),
      ...probed(probing, result),
    }
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

const reportOf = (result: ToolResult, seconds: number) =>
  readWrkReport(result.output) ?? {
    done: 0,
    seconds,
    errors: { [`wrk: ${result.complaint || 'no report'}`]: 1 },
  }

/** In place of wrk's latency, which is of requests and not of whole connections. */
const probed = (
  probing: PacedConnectionsLoad | undefined,
  result: ToolResult,
): Findings & Partial<Pick<LoadAnswer, 'errors'>> => {
  if (probing === undefined) return {}
  const { connect, latency } = probing.findings()
  const errors = new ErrorCounts()
  errors.addAll(reportOf(result, 0).errors)
  errors.addAll(probing.errors.counts)
  return {
    errors: errors.counts,
    ...(connect && { connect }),
    ...(latency && { latency }),
  }
}
