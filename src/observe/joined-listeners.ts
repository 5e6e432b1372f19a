import { cellsOf, countersOf, type ListenerCounters } from '../relay/counters.ts'
import type { EndpointStats, ListenerStats, RelayStats } from '../relay/relay.ts'
import { forEachYielding } from '../util/list-diff.ts'

/** What the metrics are read from: one look at the relay, ServicePorts added up. */
export interface RelayTotals {
  /** Of those that linger there are the counters alone. */
  readonly servicePorts: readonly ListenerStats[]
  readonly stats: Pick<RelayStats, 'fds' | 'acceptPaused' | 'workers' | 'restarts'>
}

/**
 * Adds up listeners of the same name and protocol: a dual-stack ServicePort has one in
 * each IP family, one with node ports on loopback another for those, and two lines with the same labels would make a scrape invalid.
 */
export const relayTotals = async (stats: RelayStats): Promise<RelayTotals> => {
  const totals = new Map<string, ListenerStats>()
  await forEachYielding(stats.listeners, listener => {
    // One that lingers may share its name and endpoints with the one that came after it.
    const one = listener.wanted ? listener : { ...listener, binds: [], endpoints: [] }
    const key = `${one.protocol} ${one.name}`
    const before = totals.get(key)
    totals.set(key, before === undefined ? one : join(before, one))
  })
  return { servicePorts: [...totals.values()], stats }
}

const addCounters = (
  a: Readonly<ListenerCounters>,
  b: Readonly<ListenerCounters>,
): ListenerCounters => {
  const [some, more] = [cellsOf(a), cellsOf(b)]
  return countersOf(cell => (some[cell] ?? 0) + (more[cell] ?? 0))
}

/**
 * What a ServicePort's listeners have counted, as of one: node ports on loopback have one beside
 * that of its other VIPs. Undefined when there is none.
 */
export const joinListeners = (
  listeners: readonly ListenerStats[],
): ListenerStats | undefined => {
  const [first, ...others] = listeners
  return first && others.reduce(join, first)
}

const join = (a: ListenerStats, b: ListenerStats): ListenerStats => ({
  ...a,
  binds: [...a.binds, ...b.binds],
  endpoints: joinEndpoints([...a.endpoints, ...b.endpoints]),
  counters: addCounters(a.counters, b.counters),
  lastError: a.lastError || b.lastError,
  failing: a.failing || b.failing,
  wanted: a.wanted || b.wanted,
})

const joinEndpoints = (all: readonly EndpointStats[]): readonly EndpointStats[] => {
  const joined = new Map<string, EndpointStats>()
  for (const one of all) {
    const before = joined.get(one.key)
    joined.set(one.key, before === undefined ? one : addEndpoints(before, one))
  }
  return [...joined.values()]
}

/** The round-trip time that is longer: which connection it is of does not matter to a reader. */
const addEndpoints = (a: EndpointStats, b: EndpointStats): EndpointStats => ({
  key: a.key,
  active: a.active + b.active,
  failures: a.failures + b.failures,
  coolingDown: a.coolingDown || b.coolingDown,
  rttMs: Math.max(a.rttMs ?? 0, b.rttMs ?? 0),
  retransmits: (a.retransmits ?? 0) + (b.retransmits ?? 0),
})
