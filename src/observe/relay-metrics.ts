import { dialBuckets, holdBuckets, type ListenerCounters } from '../relay/counters.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import {
  type EndpointStats,
  type ListenerStats,
  type WorkerStats,
} from '../relay/relay.ts'
import { counter, gauge, histogram, type Metric, type Sample } from './exposition.ts'
import type { RelayTotals } from './joined-listeners.ts'

type Counters = Readonly<ListenerCounters>
type Tally = Readonly<Record<string, number>>
type Of = ListenerStats['protocol'] | 'both'

const servicePort = ['service_port', 'protocol']

/** What a metric's lines are read by, with the labels of each: the end of its row below. */
type Lines = readonly [read: Metric<RelayTotals>['read'], labels: readonly string[]]

/** Lines of each ServicePort. */
const eachPort = (
  of: Of,
  read: (port: ListenerStats) => Iterable<Sample>,
  labels = servicePort,
): Lines => [
  function* ({ servicePorts }) {
    for (const port of servicePorts)
      if (of === 'both' || of === port.protocol) yield* read(port)
  },
  labels,
]

/** A line for each ServicePort of a protocol. */
const each = (of: Of, read: (counters: Counters) => number): Lines =>
  eachPort(of, ({ name, protocol, counters }) => [[[name, protocol], read(counters)]])

/** A line for each key of a tally, which is the last label. */
const eachKey = (of: Of, key: string, read: (counters: Counters) => Tally): Lines =>
  eachPort(
    of,
    ({ name, protocol, counters }) =>
      Object.entries(read(counters)).map(([is, count]) => [[name, protocol, is], count]),
    [...servicePort, key],
  )

type Path = Required<Pick<EndpointStats, 'rttMs' | 'retransmits'>>

/** A line for each endpoint of which the kernel was asked: a connection has been to it. */
const eachPath = (read: (path: Path) => number): Lines =>
  eachPort(
    'both',
    function* ({ name, protocol, endpoints }) {
      for (const { key, rttMs = 0, retransmits = 0 } of endpoints)
        if (rttMs > 0) yield [[name, protocol, key], read({ rttMs, retransmits })]
    },
    [...servicePort, 'endpoint'],
  )

/** A histogram of times; an idle ServicePort has none. */
const eachTimes = (
  bounds: readonly number[],
  read: (counters: Counters) => readonly [counts: readonly number[], sum: number],
): Lines =>
  eachPort('both', function* ({ name, protocol, counters }) {
    const [counts, sum] = read(counters)
    if (counts.some(count => count > 0)) yield [[name, protocol], { bounds, counts, sum }]
  })

const eachWorker = (read: (worker: WorkerStats) => number): Lines => [
  ({ stats: { workers = [] } }) =>
    workers.map(worker => [[String(worker.thread)], read(worker)]),
  ['worker'],
]

const bindStates = ['listening', 'binding', 'closed', 'failed'] as const

/**
 * The relay's part of the table of metrics, read from its plain counters. A metric has
 * only what concerns its protocol, and a histogram starts with the first dial: of an idle
 * ServicePort there is nothing to know, and it would be 13 lines.
 */
export const relayMetrics: readonly Metric<RelayTotals>[] = [
  counter(
    'usher_connections_accepted_total',
    'TCP connections accepted from clients.',
    ...each('TCP', counters => counters.accepted),
  ),
  gauge(
    'usher_connections_active',
    'TCP connections that are open now.',
    ...each('TCP', counters => counters.active),
  ),
  counter(
    'usher_connections_failed_total',
    'TCP connections that did not end in the normal way, by cause: who ended it (C client, S endpoint, R resources, P policy, D endpoint down, L lifetime, K shutdown or operator; lower-case for a timeout), then when or why (R before a dial, H and N by what came first, L a limit, Q in a queue, C dialling, D data).',
    ...eachKey('TCP', 'cause', counters => counters.failed),
  ),
  counter(
    'usher_dial_attempts_total',
    'Attempts to connect to an endpoint.',
    ...each('TCP', counters => counters.dialAttempts),
  ),
  counter(
    'usher_dial_retries_total',
    'Attempts to connect after the first one of a connection: what clients were spared.',
    ...each('TCP', counters => counters.dialRetries),
  ),
  histogram(
    'usher_dial_duration_seconds',
    'Time a successful attempt to connect to an endpoint took.',
    ...eachTimes(dialBuckets, one => [one.dialSeconds, one.dialSecondsSum]),
  ),
  gauge(
    'usher_connections_held',
    'TCP connections that wait now for an endpoint, or for the end of a pause.',
    ...each('TCP', counters => counters.held),
  ),
  counter(
    'usher_hold_refused_total',
    'TCP connections that were refused because as many waited for an endpoint as may.',
    ...each('TCP', counters => counters.holdRefused),
  ),
  histogram(
    'usher_hold_duration_seconds',
    'Time that TCP connections waited for an endpoint, of those that were connected to one.',
    ...eachTimes(holdBuckets, one => [one.holdSeconds, one.holdSecondsSum]),
  ),
  gauge(
    'usher_connections_queued',
    'TCP connections that wait now for a place, as all endpoints have as many connections as they may.',
    ...each('TCP', counters => counters.queued),
  ),
  counter(
    'usher_queue_refused_total',
    'TCP connections that were refused because as many waited for a place as may.',
    ...each('TCP', counters => counters.queueRefused),
  ),
  counter(
    'usher_relayed_bytes_total',
    'Bytes of payload passed on, by direction.',
    ...eachKey('both', 'direction', counters => ({
      'client->backend': counters.bytesToBackend,
      'backend->client': counters.bytesToClient,
    })),
  ),
  counter(
    'usher_access_log_lines_total',
    'Lines of the access log that were made, whatever has become of them; only of ServicePorts that have one.',
    ...eachPort('both', ({ name, protocol, counters: { accessLines } }) =>
      accessLines > 0 ? [[[name, protocol], accessLines]] : [],
    ),
  ),
  gauge(
    'usher_udp_flows_active',
    'UDP flows (client addresses and ports) that are open now.',
    ...each('UDP', counters => counters.active),
  ),
  counter(
    'usher_udp_flows_total',
    'UDP flows opened.',
    ...each('UDP', counters => counters.accepted),
  ),
  counter(
    'usher_udp_datagrams_total',
    'UDP datagrams passed on, by direction.',
    ...eachKey('UDP', 'direction', counters => ({
      'client->backend': counters.datagramsToBackend,
      'backend->client': counters.datagramsToClient,
    })),
  ),
  counter(
    'usher_udp_drops_total',
    'UDP datagrams that could not be passed on, by reason.',
    ...eachKey('UDP', 'reason', counters => counters.datagramsDropped),
  ),
  gauge(
    'usher_endpoint_rtt_seconds',
    'Smoothed round-trip time to an endpoint, as the kernel last had it of a connection (TCP_INFO). Only of the linux relay.',
    ...eachPath(({ rttMs }) => rttMs / 1000),
  ),
  counter(
    'usher_endpoint_retransmits_total',
    'Segments that the kernel has sent to an endpoint again, on the connections that were asked (TCP_INFO). Only of the linux relay.',
    ...eachPath(({ retransmits }) => retransmits),
  ),
  counter(
    'usher_relay_worker_restarts_total',
    'Times that a worker of the relay has died, and all of them were started again. Only of a relay that has workers.',
    ...eachWorker(({ restarts }) => restarts),
  ),
  counter(
    'usher_relay_worker_hangs_total',
    'Times that a worker of the relay was ended because it had given no sign of life for 1.5 s. Only of a relay that has workers.',
    ...eachWorker(({ hangs }) => hangs),
  ),
  gauge(
    'usher_relay_held_bytes',
    'Bytes that were read from one side of a connection and not taken by the other yet, in buffers and pipes. Only of a relay that has workers.',
    ...eachWorker(({ heldBytes }) => heldBytes),
  ),
  counter(
    'usher_data_plane_restarts_total',
    'Times that the process of the relay has died and was started again. Not in a sidecar, which has none.',
    ({ stats }) => stats.restarts,
  ),
  gauge(
    'usher_listeners',
    'Addresses Usher should listen on, by what has become of them; closed ones have no endpoint to serve them.',
    ({ servicePorts }) => {
      const states = servicePorts.flatMap(({ binds }) => binds.map(({ state }) => state))
      return bindStates.map(state => [[state], states.filter(is => is === state).length])
    },
    ['state'],
  ),
  gauge(
    'usher_fds_used',
    'File descriptors the relay holds: listening sockets and connections. process_open_fds has all.',
    ({ stats }) => stats.fds.used,
  ),
  gauge(
    'usher_fds_limit',
    'File descriptors the relay may hold.',
    ({ stats }) => stats.fds.limit,
  ),
  gauge(
    'usher_accept_paused',
    '1 while new connections wait because file descriptors are short, else 0.',
    ({ stats }) => Number(stats.acceptPaused),
  ),
]

/** Which relay carries the bytes. */
export const relayInfoMetrics: readonly Metric<
  Pick<ChosenRelay, 'name' | 'workers' | 'ownProcess'>
>[] = [
  gauge(
    'usher_relay_info',
    'Always 1; the labels are the relay that carries the bytes, its threads, and whether it has a process of its own.',
    ({ name, workers, ownProcess }) => [
      [[name, String(workers), String(ownProcess !== undefined)], 1],
    ],
    ['relay', 'workers', 'own_process'],
  ),
]

/** Of ServicePorts that have an access log. */
export const accessLogMetrics: readonly Metric<{
  readonly dropped: ReadonlyMap<string, number>
}>[] = [
  counter(
    'usher_access_log_dropped_total',
    'Lines of the access log that were lost: where they go did not take them, or they went with a worker that died.',
    ({ dropped }) => Array.from(dropped, ([name, lines]): Sample => [[name], lines]),
    ['service_port'],
  ),
]
