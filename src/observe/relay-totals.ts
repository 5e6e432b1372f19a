import type { Protocol } from '../model/service.ts'
import type {
  BindState,
  ListenerCounters,
  ListenerStats,
  RelayStats,
} from '../relay/relay.ts'
import { forEachYielding } from '../util/yielding.ts'
import { addCounters } from './joined-listeners.ts'

/** What all listeners of one ServicePort have counted. */
export interface ServicePortTotals {
  readonly protocol: Protocol
  /** `service_port` and `protocol`. */
  readonly labels: readonly string[]
  readonly counters: Readonly<ListenerCounters>
}

/** What the kernel says of the connections to an endpoint, where the relay can ask it. */
export interface EndpointPath {
  /** The same, and `endpoint`. */
  readonly labels: readonly string[]
  readonly rttMs: number
  readonly retransmits: number
}

/** What the metrics are read from: one look at the relay, ServicePorts added up. */
export interface RelayTotals {
  readonly servicePorts: readonly ServicePortTotals[]
  readonly paths: readonly EndpointPath[]
  /** Addresses that are wanted, by what has become of them. */
  readonly binds: Readonly<Record<BindState['state'], number>>
  readonly stats: Pick<RelayStats, 'fds' | 'acceptPaused' | 'workers' | 'restarts'>
}

const totalsOf = ({ name, protocol, counters }: ListenerStats): ServicePortTotals => ({
  protocol,
  labels: [name, protocol],
  counters,
})

/** Only endpoints that a connection has been to have a round-trip time. */
const pathsOf = ({ name, protocol, endpoints }: ListenerStats): readonly EndpointPath[] =>
  endpoints.flatMap(({ key, rttMs = 0, retransmits = 0 }) =>
    rttMs > 0 ? [{ labels: [name, protocol, key], rttMs, retransmits }] : [],
  )

/** Two that are the same by their labels are one: the longer time, and all that was sent again. */
const addPath = (paths: Map<string, EndpointPath>, path: EndpointPath): void => {
  const key = path.labels.join(' ')
  const before = paths.get(key)
  paths.set(key, {
    labels: path.labels,
    rttMs: Math.max(path.rttMs, before?.rttMs ?? 0),
    retransmits: path.retransmits + (before?.retransmits ?? 0),
  })
}

/**
 * Adds up listeners of the same name and protocol: a dual-stack ServicePort has one in
 * each IP family, one with node ports on loopback another for those, and two lines with the same labels would make a scrape invalid.
 */
export const relayTotals = async (stats: RelayStats): Promise<RelayTotals> => {
  const totals = new Map<string, ServicePortTotals>()
  const paths = new Map<string, EndpointPath>()
  const binds = { listening: 0, binding: 0, closed: 0, failed: 0 }
  await forEachYielding(stats.listeners, listener => {
    if (listener.wanted) for (const { state } of listener.binds) binds[state] += 1
    // One that lingers may share its name and endpoints with the one that came after it.
    if (listener.wanted) for (const path of pathsOf(listener)) addPath(paths, path)
    const key = `${listener.protocol} ${listener.name}`
    const before = totals.get(key)
    totals.set(
      key,
      before === undefined
        ? totalsOf(listener)
        : { ...before, counters: addCounters(before.counters, listener.counters) },
    )
  })
  return { servicePorts: [...totals.values()], paths: [...paths.values()], binds, stats }
}
