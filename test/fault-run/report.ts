import type { RequestLog } from '../support/api-server/request-log.ts'
import type { Quiet } from './quiet.ts'
import type { Vitals } from './vitals.ts'

export interface Report extends Vitals {
  readonly seed: number
  readonly ms: number
  readonly changes: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  /** By how the proxy came to it. */
  readonly quiet: Readonly<Record<string, { count: number; longestMs: number }>>
  readonly reloads: number
  readonly requests: number
  readonly requestsPerCollection: Readonly<Record<string, number>>
  readonly peakPerSecond: number
  readonly dials: number
  readonly logLines: number
}

interface Rest extends Vitals {
  readonly seed: number
  readonly ms: number
  readonly requests: RequestLog
  readonly dials: number
  readonly logLines: number
}

/** Counts what a fault run did. */
export class Tally {
  reloads = 0
  readonly #changes: Record<string, number> = {}
  readonly #faults: Record<string, number> = {}
  readonly #quiet: Record<string, { count: number; longestMs: number }> = {}

  changed(what: string): void {
    // Without the numbers in it.
    add(this.#changes, what.replace(/ (?:to|on) \d+/, ''))
  }

  blown(kind: string): void {
    add(this.#faults, kind)
  }

  quiet(kind: string, { ms }: Quiet): void {
    const { count, longestMs } = this.#quiet[kind] ?? { count: 0, longestMs: 0 }
    this.#quiet[kind] = { count: count + 1, longestMs: Math.max(longestMs, ms) }
  }

  report({ requests, ...rest }: Rest): Report {
    const requestsPerCollection: Record<string, number> = {}
    for (const { resource } of requests.all) add(requestsPerCollection, resource)
    return {
      ...rest,
      changes: this.#changes,
      faults: this.#faults,
      quiet: this.#quiet,
      reloads: this.reloads,
      requests: requests.all.length,
      requestsPerCollection,
      peakPerSecond: requests.peakPerSecond(),
    }
  }
}

const add = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1
}

/** The report as a table. */
export const tableOf = (report: Report): string => {
  const quiet = Object.entries(report.quiet).map(
    ([kind, { count, longestMs }]) => `${count} ${kind} (longest ${seconds(longestMs)})`,
  )
  const rows: readonly (readonly [string, string])[] = [
    ['seed', String(report.seed)],
    ['time', seconds(report.ms)],
    ['changes', listed(report.changes)],
    ['faults', listed(report.faults)],
    ['quiet moments', quiet.join(', ')],
    ['dials in between', String(report.dials)],
    ['reloads', String(report.reloads)],
    ['requests', listed(report.requestsPerCollection)],
    ['most in a second', String(report.peakPerSecond)],
    ['slowest /livez', `${Math.round(report.slowestLivezMs)} ms`],
    ['memory at most', `${Math.round(report.memory / (1 << 20))} MiB`],
    ['event loop late', `${Math.round(report.loopDelayMs)} ms at most`],
    ['log lines', String(report.logLines)],
  ]
  return rows.map(([name, value]) => `${name.padEnd(18)} ${value}`).join('\n')
}

const listed = (counts: Readonly<Record<string, number>>): string => {
  const all = Object.entries(counts).toSorted(([, a], [, b]) => b - a)
  const total = all.reduce((sum, [, count]) => sum + count, 0)
  return `${total}: ${all.map(([name, count]) => `${name || 'others'} ${count}`).join(', ')}`
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
