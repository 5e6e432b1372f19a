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
    'Open TCP connections.',
    ...each('TCP', counters => counters.active),
  ),
  counter(
    'usher_connections_failed_total',
    'TCP connections that did not end normally, by cause: who ended it (C client, S endpoint, R resources, P policy, D endpoint down, L lifetime, K shutdown or operator; lower-case for a timeout), then when or why (R before a dial, H and N by what came first, L a limit, Q in a queue, C dialling, D data).',
    ...eachKey('TCP', 'cause', counters => counters.failed),
  ),
  counter(
    'usher_dial_attempts_total',
    'Connection attempts to an endpoint.',
    ...each('TCP', counters => counters.dialAttempts),
  ),
  counter(
    'usher_dial_retries_total',
    'Connection attempts after the first one of a connection: retries that clients did not notice.',
    ...each('TCP', counters => counters.dialRetries),
  ),
  histogram(
    'usher_dial_duration_seconds',
    'Duration of successful connection attempts to an endpoint.',
    ...eachTimes(dialBuckets, one => [one.dialSeconds, one.dialSecondsSum]),
  ),
  gauge(
    'usher_connections_held',
    'TCP connections waiting for an endpoint or for the end of a pause.',
    ...each('TCP', counters => counters.held),
  ),
  counter(
    'usher_hold_refused_total',
    'TCP connections refused because the maximum number was already waiting for an endpoint.',
    ...each('TCP', counters => counters.holdRefused),
  ),
  histogram(
    'usher_hold_duration_seconds',
    'Time that TCP connections waited for an endpoint before they were connected to one.',
    ...eachTimes(holdBuckets, one => [one.holdSeconds, one.holdSecondsSum]),
  ),
  gauge(
    'usher_connections_queued',
    'TCP connections queued because all endpoints are at their connection limit.',
    ...each('TCP', counters => counters.queued),
  ),
  counter(
    'usher_queue_refused_total',
    'TCP connections refused because the queue was full.',
    ...each('TCP', counters => counters.queueRefused),
  ),
  counter(
    'usher_relayed_bytes_total',
    'Payload bytes forwarded, by direction.',
    ...eachKey('both', 'direction', counters => ({
      'client->backend': counters.bytesToBackend,
      'backend->client': counters.bytesToClient,
    })),
  ),
  counter(
    'usher_access_log_lines_total',
    'Access log lines generated, whether written or lost; only for ServicePorts with an access log.',
    ...eachPort('both', ({ name, protocol, counters: { accessLines } }) =>
      accessLines > 0 ? [[[name, protocol], accessLines]] : [],
    ),
  ),
  gauge(
    'usher_udp_flows_active',
    'Open UDP flows (client addresses and ports).',
    ...each('UDP', counters => counters.active),
  ),
  counter(
    'usher_udp_flows_total',
    'UDP flows opened.',
    ...each('UDP', counters => counters.accepted),
  ),
  counter(
    'usher_udp_datagrams_total',
    'UDP datagrams forwarded, by direction.',
    ...eachKey('UDP', 'direction', counters => ({
      'client->backend': counters.datagramsToBackend,
      'backend->client': counters.datagramsToClient,
    })),
  ),
  counter(
    'usher_udp_drops_total',
    'UDP datagrams dropped, by reason.',
    ...eachKey('UDP', 'reason', counters => counters.datagramsDropped),
  ),
  gauge(
    'usher_endpoint_rtt_seconds',
    "Smoothed round-trip time to an endpoint, from the kernel's last sample of a connection (TCP_INFO). Only in the linux relay.",
    ...eachPath(({ rttMs }) => rttMs / 1000),
  ),
  counter(
    'usher_endpoint_retransmits_total',
    'TCP segments retransmitted to an endpoint, on the sampled connections (TCP_INFO). Only in the linux relay.',
    ...eachPath(({ retransmits }) => retransmits),
  ),
  counter(
    'usher_relay_worker_restarts_total',
    'Times a relay worker died and all workers were restarted. Only in a relay with workers.',
    ...eachWorker(({ restarts }) => restarts),
  ),
  counter(
    'usher_relay_worker_hangs_total',
    'Times a relay worker was killed because it did not respond for 1.5 s. Only in a relay with workers.',
    ...eachWorker(({ hangs }) => hangs),
  ),
  gauge(
    'usher_relay_held_bytes',
    'Bytes in buffers and pipes, read from one side of a connection and not yet accepted by the other. Only in a relay with workers.',
    ...eachWorker(({ heldBytes }) => heldBytes),
  ),
  counter(
    'usher_data_plane_restarts_total',
    'Times the relay process died and was restarted. Absent in a sidecar, which has none.',
    ({ stats }) => stats.restarts,
  ),
  gauge(
    'usher_listeners',
    'Addresses Usher should listen on, by state; closed ones have no endpoint.',
    ({ servicePorts }) => {
      const states = servicePorts.flatMap(({ binds }) => binds.map(({ state }) => state))
      return bindStates.map(state => [[state], states.filter(is => is === state).length])
    },
    ['state'],
  ),
  gauge(
    'usher_fds_used',
    'File descriptors used by the relay for listening sockets and connections. process_open_fds counts all.',
    ({ stats }) => stats.fds.used,
  ),
  gauge(
    'usher_fds_limit',
    'Maximum number of file descriptors for the relay.',
    ({ stats }) => stats.fds.limit,
  ),
  gauge(
    'usher_accept_paused',
    '1 while new connections wait because file descriptors are running out, else 0.',
    ({ stats }) => Number(stats.acceptPaused),
  ),
]

/** Which relay carries the bytes. */
export const relayInfoMetrics: readonly Metric<
  Pick<ChosenRelay, 'name' | 'workers' | 'ownProcess'>
>[] = [
  gauge(
    'usher_relay_info',
    'Always 1; the labels are the relay in use, its threads, and whether it is a separate process.',
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
    'Access log lines lost because their destination did not accept them or a worker died.',
    ({ dropped }) => Array.from(dropped, ([name, lines]): Sample => [[name], lines]),
    ['service_port'],
  ),
]
