import { cellsOf, countersOf, gaugeCells, newCounters } from '../counters.ts'
import type { EndpointStats, ListenerStats } from '../relay.ts'

/** The figures of one listener as they travel between processes. */
export interface PackedListener extends Omit<ListenerStats, 'counters' | 'endpoints'> {
  /** By `counterCell`; what is missing at the end is 0. */
  readonly counters: readonly number[]
  /** Of endpoints of which a figure is not 0: of 100 000 few have been used. */
  readonly endpointKeys: readonly string[]
  /** Five of each in turn. */
  readonly endpointFigures: readonly number[]
}

export const packListener = (stats: ListenerStats): PackedListener => {
  const { counters, endpoints, ...others } = stats
  const used = endpoints.filter(isUsed)
  return {
    ...others,
    counters: cellsOf(counters),
    endpointKeys: used.map(({ key }) => key),
    endpointFigures: used.flatMap(endpointFigures),
  }
}

/** One for all that have had no traffic yet. */
const nothing: ListenerStats['counters'] = newCounters()

export const unpackListener = (packed: PackedListener): ListenerStats => {
  const { counters, endpointKeys, endpointFigures: figures, ...others } = packed
  return {
    ...others,
    counters: counters.length === 0 ? nothing : countersOf(cell => counters[cell] ?? 0),
    endpoints: endpointKeys.map((key, i) => endpointStats(key, figures, i)),
  }
}

/** What was counted before and what has been counted since; of gauges there is only what is now. */
export const addCounters = (
  before: readonly number[],
  now: readonly number[],
): readonly number[] => {
  if (before.length === 0) return now
  const sums = [...before]
  for (const cell of gaugeCells) if (cell < sums.length) sums[cell] = 0
  for (const [cell, count] of now.entries()) sums[cell] = (sums[cell] ?? 0) + count
  return sums
}

const isUsed = ({ active, failures, coolingDown, rttMs = 0 }: EndpointStats): boolean =>
  active > 0 || failures > 0 || coolingDown || rttMs > 0

const endpointFigures = (endpoint: EndpointStats): readonly number[] => {
  const { active, failures, coolingDown, rttMs = 0, retransmits = 0 } = endpoint
  return [active, failures, coolingDown ? 1 : 0, rttMs, retransmits]
}

const endpointStats = (key: string, all: readonly number[], i: number): EndpointStats => {
  const figures = all.slice(5 * i, 5 * i + 5)
  const [active = 0, failures = 0, coolingDown = 0, rttMs = 0, retransmits = 0] = figures
  // The kernel was asked only where there is a time.
  const path = rttMs > 0 ? { rttMs, retransmits } : undefined
  return { key, active, failures, coolingDown: coolingDown === 1, ...path }
}
