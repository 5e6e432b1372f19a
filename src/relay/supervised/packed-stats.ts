import type { RelayProtocol } from '../../model/service.ts'
import type {
  BindState,
  EndpointStats,
  ListenerCounters,
  ListenerStats,
} from '../relay.ts'

/**
 * The figures of one listener as they travel: counters in a list, because 10 000 objects
 * of 30 named fields would be 30 MB a scrape.
 */
export interface PackedListener {
  readonly id: string
  readonly name: string
  readonly protocol: RelayProtocol
  readonly binds: readonly BindState[]
  readonly lastError: string
  readonly wanted: boolean
  readonly endpointKeys: readonly string[]
  /** Those of `endpointFigures` of each endpoint in turn; empty: all are 0. */
  readonly endpointFigures: readonly number[]
  readonly active: number
  readonly totals: PackedTotals
}

/** What only grows. */
export interface PackedTotals {
  /** In the order of `fields`, then the buckets of `dialSeconds` unless all are 0. */
  readonly numbers: readonly number[]
  readonly failed: ListenerCounters['failed']
  readonly dropped: ListenerCounters['datagramsDropped']
}

type Field = Exclude<
  keyof ListenerCounters,
  'active' | 'failed' | 'datagramsDropped' | 'dialSeconds'
>

const fields: readonly Field[] = [
  'accepted',
  'dialAttempts',
  'dialRetries',
  'bytesToBackend',
  'bytesToClient',
  'datagramsToBackend',
  'datagramsToClient',
  'dialSecondsSum',
]

export const packListener = (stats: ListenerStats): PackedListener => {
  const { id, name, protocol, binds, endpoints, counters, lastError, wanted } = stats
  const { active, failed, datagramsDropped: dropped, dialSeconds } = counters
  const numbers = fields.map(field => counters[field])
  if (dialSeconds.some(count => count > 0)) numbers.push(...dialSeconds)
  const figures = endpoints.flatMap(endpointFigures)
  return {
    id,
    name,
    protocol,
    binds,
    lastError,
    wanted,
    endpointKeys: endpoints.map(({ key }) => key),
    endpointFigures: figures.some(figure => figure > 0) ? figures : [],
    active,
    totals: { numbers, failed, dropped },
  }
}

/** `buckets`: how many `dialSeconds` has. */
export const unpackListener = (
  packed: PackedListener,
  buckets: number,
): ListenerStats => {
  const { id, name, protocol, binds, lastError, wanted, active, totals } = packed
  const { endpointKeys, endpointFigures: figures } = packed
  const number = (field: Field): number => totals.numbers[fields.indexOf(field)] ?? 0
  const counters: ListenerCounters = {
    accepted: number('accepted'),
    active,
    dialAttempts: number('dialAttempts'),
    dialRetries: number('dialRetries'),
    failed: totals.failed,
    bytesToBackend: number('bytesToBackend'),
    bytesToClient: number('bytesToClient'),
    datagramsToBackend: number('datagramsToBackend'),
    datagramsToClient: number('datagramsToClient'),
    datagramsDropped: totals.dropped,
    dialSeconds: Array.from(
      { length: buckets },
      (_, i) => totals.numbers[fields.length + i] ?? 0,
    ),
    dialSecondsSum: number('dialSecondsSum'),
  }
  const endpoints = endpointKeys.map((key, i) => endpointStats(key, figures, i))
  return { id, name, protocol, binds, endpoints, counters, lastError, wanted }
}

const endpointFigures = (endpoint: EndpointStats): readonly number[] => {
  const { active, failures, resting, rttMs = 0, retransmits = 0 } = endpoint
  return [active, failures, resting ? 1 : 0, rttMs, retransmits]
}

const endpointStats = (key: string, all: readonly number[], i: number): EndpointStats => {
  const figures = all.slice(5 * i, 5 * i + 5)
  const [active = 0, failures = 0, resting = 0, rttMs = 0, retransmits = 0] = figures
  // The kernel was asked only where there is a time.
  const path = rttMs > 0 ? { rttMs, retransmits } : undefined
  return { key, active, failures, resting: resting === 1, ...path }
}

export const addTotals = (a: PackedTotals | undefined, b: PackedTotals): PackedTotals => {
  if (a === undefined) return b
  const length = Math.max(a.numbers.length, b.numbers.length)
  return {
    numbers: Array.from({ length }, (_, i) => (a.numbers[i] ?? 0) + (b.numbers[i] ?? 0)),
    failed: addTallies(a.failed, b.failed),
    dropped: addTallies(a.dropped, b.dropped),
  }
}

const addTallies = <K extends string>(
  a: Readonly<Partial<Record<K, number>>>,
  b: Readonly<Partial<Record<K, number>>>,
): Partial<Record<K, number>> => {
  const sum: Partial<Record<K, number>> = { ...a }
  for (const key in b) sum[key] = (sum[key] ?? 0) + (b[key] ?? 0)
  return sum
}
