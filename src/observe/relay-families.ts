import { dialBuckets } from '../relay/relay.ts'
import type { BindState, ListenerCounters } from '../relay/relay.ts'
import { labelText } from './exposition.ts'
import type { Family, Sample } from './exposition.ts'
import { histogramSamples } from './plain-histogram.ts'
import type { EndpointPath, RelayTotals, ServicePortTotals } from './relay-totals.ts'

type Counters = Readonly<ListenerCounters>
type RelayFamily = Family<RelayTotals>
type About = Pick<RelayFamily, 'name' | 'type' | 'help'>

/** A family with lines for each ServicePort that `concerns`. */
const perServicePort = (
  about: About,
  concerns: (servicePort: ServicePortTotals) => boolean,
  read: (servicePort: ServicePortTotals) => readonly Sample[],
): RelayFamily => ({
  ...about,
  *samples({ servicePorts }) {
    for (const servicePort of servicePorts)
      if (concerns(servicePort)) yield* read(servicePort)
  },
})

const tcp = ({ protocol }: ServicePortTotals): boolean => protocol === 'TCP'
const udp = ({ protocol }: ServicePortTotals): boolean => protocol === 'UDP'
const both = (): boolean => true

const one =
  (read: (counters: Counters) => number) =>
  ({ labels, counters }: ServicePortTotals): readonly Sample[] => [
    { suffix: '', labels, value: read(counters) },
  ]

/** One line per key of a tally, with the key as the label `label`. */
const each =
  (label: string, read: (counters: Counters) => Readonly<Record<string, number>>) =>
  ({ labels, counters }: ServicePortTotals): readonly Sample[] =>
    Object.entries(read(counters)).map(([key, value]) => ({
      suffix: '',
      labels: `${labels},${labelText({ [label]: key })}`,
      value,
    }))

/** One line for the whole process. */
const single = (about: About, read: (totals: RelayTotals) => number): RelayFamily => ({
  ...about,
  samples: totals => [{ suffix: '', labels: '', value: read(totals) }],
})

const bindStates: readonly BindState['state'][] = [
  'listening',
  'binding',
  'closed',
  'failed',
]

const bindsByState: RelayFamily = {
  name: 'usher_listeners',
  type: 'gauge',
  help: 'Addresses Usher should listen on, by what has become of them; closed ones have no endpoint to serve them.',
  *samples({ binds }) {
    for (const state of bindStates)
      yield { suffix: '', labels: labelText({ state }), value: binds[state] }
  },
}

/** A family with a line for each endpoint of which the kernel was asked. */
const perEndpoint = (
  about: About,
  read: (path: EndpointPath) => number,
): RelayFamily => ({
  ...about,
  *samples({ paths }) {
    for (const path of paths) yield { suffix: '', labels: path.labels, value: read(path) }
  },
})

const workerRestarts: RelayFamily = {
  name: 'usher_relay_worker_restarts_total',
  type: 'counter',
  help: 'Times that a worker of the relay has died and was started again. Only of a relay that has workers.',
  *samples({ stats: { workers = [] } }) {
    for (const { thread, restarts } of workers)
      yield {
        suffix: '',
        labels: labelText({ worker: String(thread) }),
        value: restarts,
      }
  },
}

const workerHangs: RelayFamily = {
  name: 'usher_relay_worker_hangs_total',
  type: 'counter',
  help: 'Times that a worker of the relay was ended because it had given no sign of life for 1.5 s. Only of a relay that has workers.',
  *samples({ stats: { workers = [] } }) {
    for (const { thread, hangs } of workers)
      yield { suffix: '', labels: labelText({ worker: String(thread) }), value: hangs }
  },
}

const heldBytes: RelayFamily = {
  name: 'usher_relay_held_bytes',
  type: 'gauge',
  help: 'Bytes that were read from one side of a connection and not taken by the other yet, in buffers and pipes. Only of a relay that has workers.',
  *samples({ stats: { workers = [] } }) {
    for (const { thread, heldBytes: value } of workers)
      yield { suffix: '', labels: labelText({ worker: String(thread) }), value }
  },
}

const dataPlaneRestarts: RelayFamily = {
  name: 'usher_data_plane_restarts_total',
  type: 'counter',
  help: 'Times that the process of the relay has died and was started again. Not in a sidecar, which has none.',
  *samples({ stats: { restarts } }) {
    if (restarts !== undefined) yield { suffix: '', labels: '', value: restarts }
  },
}

/**
 * The metrics of the relay, read from its plain counters. A family says only what
 * concerns its protocol, and a histogram starts with the first dial: of an idle
 * ServicePort there is nothing to know, and it would be 13 lines.
 */
export const relayFamilies: readonly RelayFamily[] = [
  perServicePort(
    {
      name: 'usher_connections_accepted_total',
      type: 'counter',
      help: 'TCP connections accepted from clients.',
    },
    tcp,
    one(counters => counters.accepted),
  ),
  perServicePort(
    {
      name: 'usher_connections_active',
      type: 'gauge',
      help: 'TCP connections that are open now.',
    },
    tcp,
    one(counters => counters.active),
  ),
  perServicePort(
    {
      name: 'usher_connections_failed_total',
      type: 'counter',
      help: 'TCP connections that did not end in the normal way, by cause: who ended it (C client, S endpoint, R resources, P policy, K shutdown; lower-case for a timeout), then when (C dialling, R before, D data).',
    },
    tcp,
    each('cause', counters => counters.failed),
  ),
  perServicePort(
    {
      name: 'usher_dial_attempts_total',
      type: 'counter',
      help: 'Attempts to connect to an endpoint.',
    },
    tcp,
    one(counters => counters.dialAttempts),
  ),
  perServicePort(
    {
      name: 'usher_dial_retries_total',
      type: 'counter',
      help: 'Attempts to connect after the first one of a connection: what clients were spared.',
    },
    tcp,
    one(counters => counters.dialRetries),
  ),
  perServicePort(
    {
      name: 'usher_dial_duration_seconds',
      type: 'histogram',
      help: 'Time a successful attempt to connect to an endpoint took.',
    },
    ({ counters }) => counters.dialSeconds.some(count => count > 0),
    ({ labels, counters }) =>
      histogramSamples(
        labels,
        dialBuckets,
        counters.dialSeconds,
        counters.dialSecondsSum,
      ),
  ),
  perServicePort(
    {
      name: 'usher_relayed_bytes_total',
      type: 'counter',
      help: 'Bytes of payload passed on, by direction.',
    },
    both,
    each('direction', counters => ({
      'client->backend': counters.bytesToBackend,
      'backend->client': counters.bytesToClient,
    })),
  ),
  perServicePort(
    {
      name: 'usher_udp_flows_active',
      type: 'gauge',
      help: 'UDP flows (client addresses and ports) that are open now.',
    },
    udp,
    one(counters => counters.active),
  ),
  perServicePort(
    {
      name: 'usher_udp_flows_total',
      type: 'counter',
      help: 'UDP flows opened.',
    },
    udp,
    one(counters => counters.accepted),
  ),
  perServicePort(
    {
      name: 'usher_udp_datagrams_total',
      type: 'counter',
      help: 'UDP datagrams passed on, by direction.',
    },
    udp,
    each('direction', counters => ({
      'client->backend': counters.datagramsToBackend,
      'backend->client': counters.datagramsToClient,
    })),
  ),
  perServicePort(
    {
      name: 'usher_udp_drops_total',
      type: 'counter',
      help: 'UDP datagrams that could not be passed on, by reason.',
    },
    udp,
    each('reason', counters => counters.datagramsDropped),
  ),
  perEndpoint(
    {
      name: 'usher_endpoint_rtt_seconds',
      type: 'gauge',
      help: 'Smoothed round-trip time to an endpoint, as the kernel last had it of a connection (TCP_INFO). Only of the linux relay.',
    },
    ({ rttMs }) => rttMs / 1000,
  ),
  perEndpoint(
    {
      name: 'usher_endpoint_retransmits_total',
      type: 'counter',
      help: 'Segments that the kernel has sent to an endpoint again, on the connections that were asked (TCP_INFO). Only of the linux relay.',
    },
    ({ retransmits }) => retransmits,
  ),
  workerRestarts,
  workerHangs,
  heldBytes,
  dataPlaneRestarts,
  bindsByState,
  single(
    {
      name: 'usher_fds_used',
      type: 'gauge',
      help: 'File descriptors the relay holds: listening sockets and connections. process_open_fds has all.',
    },
    ({ stats }) => stats.fds.used,
  ),
  single(
    {
      name: 'usher_fds_limit',
      type: 'gauge',
      help: 'File descriptors the relay may hold.',
    },
    ({ stats }) => stats.fds.limit,
  ),
  single(
    {
      name: 'usher_accept_paused',
      type: 'gauge',
      help: '1 while new connections wait because file descriptors are short, else 0.',
    },
    ({ stats }) => (stats.acceptPaused ? 1 : 0),
  ),
]
