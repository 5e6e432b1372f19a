import type { LoadAnswer } from './question.ts'
import { ErrorCounts } from './load.ts'
import { requestHost } from './line.ts'

const mark = 'usher-bench:'

/** Has wrk(1) ask as our own generator does, and print what it found on one line. */
export const wrkScript = (close: boolean): string => `
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
