import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { runTool, ToolError } from '../../src/kernel/run-tool.ts'
import { joinHostPort } from '../../src/util/ip.ts'
import { dialEach } from './closed-loop.ts'
import { PacedConnectionsLoad } from './fixed-rate.ts'
import { requestHost } from './http.ts'
import { ErrorCounts, type Findings, settleMs, sumOfCounts, watchCpu } from './load.ts'
import type { LoadAnswer, LoadQuestion, Page } from './question.ts'

/** Beyond its window; a target that takes no connection holds wrk up before that. */
const patienceMs = 4000
/** Beside wrk(1), which doesn't tell how long connecting takes. */
const probe = { perSecond: 20, timeoutMs: 2000 }

type Question = Extract<LoadQuestion, { readonly generator: unknown }>

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
  const { kind, to, path, pids } = question
  const seconds = Math.max(1, Math.ceil(question.seconds))
  const probing =
    kind === 'connections' ? new PacedConnectionsLoad({ to, path, ...probe }) : undefined
  try {
    await probing?.ready()
    // What the one before has left open is closed by then.
    await sleep(settleMs)
    probing?.openWindow()
    const watch = watchCpu(pids)
    const connections = kind === 'requests' ? question.connections : question.parallel
    const url = `http://${joinHostPort(to.address, to.port)}${path}`
    const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, url]
    const report = await runWrk(args, seconds * 1000 + patienceMs)
    const watched = watch()
    await probing?.closeWindow()
    const found = await withoutRefused({ seconds: watched.seconds, ...report }, question)
    return { ...watched, ...found, ...probed(probing, found.errors) }
  } finally {
    await probing?.stop()
  }
}

/** What it found; an error in place of that. */
const runWrk = async (
  args: readonly string[],
  timeoutMs: number,
): Promise<Omit<WrkReport, 'seconds'> & Partial<Pick<WrkReport, 'seconds'>>> => {
  let why = 'no report'
  try {
    // It must not outlive a generator that is killed (prctl(2), PR_SET_PDEATHSIG).
    const wrapped = hasSetpriv() ? ['setpriv', '--pdeathsig', 'KILL', 'wrk'] : ['wrk']
    const [command = '', ...before] = wrapped
    const output = await runTool(command, [...before, ...args], { timeoutMs })
    const report = readWrkReport(output)
    if (report !== undefined) return report
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    if (isMissing(error)) throw new Error('wrk is not installed', { cause: error })
    const [said = ''] = error.stderr.trim().split('\n')
    why = error.failure === 'timeout' ? `not done after ${timeoutMs} ms` : said
  }
  return { done: 0, refused: 0, errors: { [`wrk: ${why}`]: 1 } }
}

const hasSetpriv = (): boolean =>
  ['/usr/bin/setpriv', '/bin/setpriv'].some(path => existsSync(path))

const isMissing = ({ failure, stderr }: ToolError): boolean =>
  failure === 'missing' || /failed to execute wrk|wrk: No such file/.test(stderr)

/**
 * wrk doesn't tell a server that has no such page (404 to everything, which is as good an
 * answer as any) from a proxy whose backend is gone (502): one more request does.
 */
const withoutRefused = async (
  { refused, ...report }: WrkReport,
  { to, path }: Page,
): Promise<Omit<WrkReport, 'refused'>> => {
  if (refused === 0) return report
  const asked = refused < report.done ? undefined : await dialEach([{ to, path }])
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
  return {
    errors: sumOfCounts(ofWrk, probing.errors.counts),
    ...(connect && { connect }),
    ...(latency && { latency }),
  }
}

const mark = 'usher-bench:'

/** Has wrk(1) ask as our own generator does, and print what it found on one line. */
const wrkScript = (close: boolean): string => `
wrk.headers["Host"] = "${requestHost}"
${close ? 'wrk.headers["Connection"] = "close"' : ''}
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\\n${mark}{"us":%d,"requests":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d,' ..
    '"p50":%d,"p90":%d,"p99":%d,"p999":%d,"max":%d}\\n',
    summary.duration, summary.requests, e.connect, e.read, e.write, e.timeout, e.status,
    latency:percentile(50), latency:percentile(90), latency:percentile(99),
    latency:percentile(99.9), latency.max))
end
`

export type WrkReport = Pick<LoadAnswer, 'done' | 'seconds' | 'errors' | 'latency'> & {
  /** How many of those that are done were answered with a status of 400 or above. */
  readonly refused: number
}

/**
 * Reads the line. Undefined when there is none, or not all of it is there. That wrk counts
 * responses other than 2xx and 3xx as errors is told apart: a server without such a page
 * is measured as well as another.
 */
export const readWrkReport = (output: string): WrkReport | undefined => {
  const line = output.split('\n').findLast(text => text.startsWith(mark))
  const found = line === undefined ? undefined : parseNumbers(line.slice(mark.length))
  if (found === undefined) return undefined
  const number = (name: string): number => found[name] ?? NaN
  const [requests, us] = [number('requests'), number('us')]
  if (!(requests >= 0) || !(us > 0)) return undefined
  const errors = new ErrorCounts()
  for (const name of ['connect', 'read', 'write', 'timeout'])
    errors.add(name === 'timeout' ? name : `${name} error`, number(name))
  const ms = (name: string): number => number(name) / 1000
  const [p50, p90, p99, p999] = [ms('p50'), ms('p90'), ms('p99'), ms('p999')]
  const latency = { p50, p90, p99, p999, max: ms('max'), count: requests }
  const isLatency = requests > 0 && Object.values(latency).every(Number.isFinite)
  return {
    done: requests,
    seconds: us / 1e6,
    errors: errors.counts,
    refused: found['status'] ?? 0,
    ...(isLatency && { latency }),
  }
}

const parseNumbers = (text: string): Readonly<Record<string, number>> | undefined => {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === 'object' && parsed !== null
      ? Object.fromEntries(Object.entries(parsed).map(([key, n]) => [key, Number(n)]))
      : undefined
  } catch {
    return undefined
  }
}
