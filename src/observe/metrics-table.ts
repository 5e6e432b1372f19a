import { orderKinds, type StandingOrder } from '../mode/operator-orders.ts'
import {
  isInternal,
  type Snapshot,
  type Target,
  type ServicePort,
} from '../model/snapshot.ts'
import type { SourceStatus } from '../source/source.ts'
import { ipFamilies } from '../util/ip.ts'
import {
  counter,
  gauge,
  histogram,
  type Histogram,
  type Metric,
  type Sample,
} from './exposition.ts'
import type { Probe, ProbeCounts, Tally } from './probe-counts.ts'
import type { ChangeCount, SyncMetrics } from './sync-metrics.ts'
import { bindText, type ChecksOf, type PortState } from './port-view.ts'

/*
 * The table of all metrics, by what they are read from, in the order of /metrics. Three
 * parts have files of their own: the relay's (relay-metrics.ts), which come first and have
 * a line for each ServicePort, those of rules in the kernel (rule-metrics-table.ts), and
 * those of the process (process-metrics.ts) at the end.
 * A new row in a table is shown; a new table is bound to what it reads in proxy/admin.ts
 * (of the node) or proxy/traffic.ts (of mode and capture).
 */

export type Table<T> = readonly Metric<T>[]

/** A line for each IP family; none where there is no value. */
export const byFamily = <T>(
  source: Readonly<Record<(typeof ipFamilies)[number], T>>,
  read: (of: T) => number | Histogram | undefined,
): Sample[] =>
  ipFamilies.flatMap((family): Sample[] => {
    const value = read(source[family])
    return value === undefined ? [] : [[[family], value]]
  })

export const ofFamily = ['ip_family']

const secondsOf = (ms: number | undefined): number | undefined =>
  ms === undefined ? undefined : ms / 1000

/** kube-proxy's, of its syncs. */
export const syncTable: Table<SyncMetrics> = [
  histogram(
    'kubeproxy_sync_proxy_rules_duration_seconds',
    'Duration of syncs.',
    ({ families }) =>
      byFamily(families, one => (one.appliedAt === undefined ? undefined : one.duration)),
    ofFamily,
  ),
  gauge(
    'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
    'Time of the last successful sync (Unix time).',
    ({ families }) => byFamily(families, ({ appliedAt }) => secondsOf(appliedAt)),
    ofFamily,
  ),
  gauge(
    'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
    'Time a sync was last queued (Unix time).',
    ({ families }) => byFamily(families, ({ queuedAt }) => secondsOf(queuedAt)),
    ofFamily,
  ),
  histogram(
    'kubeproxy_network_programming_duration_seconds',
    'Time from a change in the cluster (last-change-trigger-time) until it was applied here.',
    ({ families }) =>
      byFamily(families, one =>
        one.appliedAt === undefined ? undefined : one.programming,
      ),
    ofFamily,
  ),
]

/** Of what operators have ordered. */
export const orderTable: Table<readonly StandingOrder[]> = [
  gauge(
    'usher_paused',
    '1 for each ServicePort whose new TCP clients wait because of usher pause; no line for others.',
    orders => samplesOf(orders, 'pause', ({ name }) => [name]),
    ['service_port'],
  ),
  gauge(
    'usher_endpoint_drained',
    '1 for each endpoint that gets no new connections because of usher drain; no line for others.',
    orders => samplesOf(orders, 'drain', ({ name, endpoint }) => [name, endpoint]),
    ['service_port', 'endpoint'],
  ),
  gauge(
    'usher_operator_orders',
    'Operator orders in force, by kind: pauses, drains and weights.',
    orders =>
      orderKinds.map((kind): Sample => [
        [kind],
        orders.filter(order => order.kind === kind).length,
      ]),
    ['order'],
  ),
]

const samplesOf = (
  orders: readonly StandingOrder[],
  kind: StandingOrder['kind'],
  labels: (order: StandingOrder) => readonly string[],
): readonly Sample[] =>
  orders.filter(order => order.kind === kind).map((order): Sample => [labels(order), 1])

export interface ClusterReadings {
  /** Changes that wait for the next sync. */
  readonly pending: ChangeCount
  /** Changes that syncs have taken in since the process started; see `SyncMetrics`. */
  readonly changes: ChangeCount
  readonly snapshots: readonly Snapshot[]
}

/** What else kube-proxy shows of the wanted state, under its names. */
export const clusterTable: Table<ClusterReadings> = [
  gauge(
    'kubeproxy_sync_proxy_rules_service_changes_pending',
    'Service changes waiting to be applied.',
    ({ pending }) => pending.services,
  ),
  counter(
    'kubeproxy_sync_proxy_rules_service_changes_total',
    'Service changes applied.',
    ({ changes }) => changes.services,
  ),
  gauge(
    'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
    'Endpoint changes waiting to be applied.',
    ({ pending }) => pending.endpoints,
  ),
  counter(
    'kubeproxy_sync_proxy_rules_endpoint_changes_total',
    'Endpoint changes applied.',
    ({ changes }) => changes.endpoints,
  ),
  // Upstream's name; it is a gauge all the same.
  gauge(
    'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    'ServicePorts with policy Local whose endpoints are all on other nodes: their clients get no answer.',
    ({ snapshots }) => snapshots.flatMap(noLocal),
    ['ip_family', 'traffic_policy'],
  ),
]

const isDropped = ({ verdict }: Target): boolean => verdict === 'drop'

const noLocal = ({ family, servicePorts }: Snapshot): Sample[] => {
  let internal = 0
  let external = 0
  for (const port of servicePorts.values()) {
    if (isDropped(port.internal)) internal += 1
    if (isDropped(port.external) && !port.vips.every(isInternal)) external += 1
  }
  return [
    [[family, 'internal'], internal],
    [[family, 'external'], external],
  ]
}

/** Requests to the API server with one outcome. */
export interface RequestCount {
  /** HTTP status code, or `<error>` when there was no answer, as client-go says it. */
  readonly code: string
  readonly method: string
  /** `host:port` of the API server. */
  readonly host: string
  readonly count: number
}

/** Only where the source is the Kubernetes API. */
export const requestTable: Table<readonly RequestCount[]> = [
  counter(
    'rest_client_requests_total',
    'Requests to the API server, by status code, method and host.',
    requests =>
      requests.map(({ code, host, method, count }): Sample => [
        [code, host, method],
        count,
      ]),
    ['code', 'host', 'method'],
  ),
]

/**
 * Every Kubernetes component has it. The version is Usher's own, since there is no
 * Kubernetes in it: a rule that compares versions of components should leave Usher out.
 */
export const versionTable: Table<string> = [
  gauge(
    'kubernetes_build_info',
    'Always 1; gitVersion is the version of Usher.',
    version => {
      const [major = '', minor = ''] = version.split('.')
      const platform = `${process.platform}/${goArch()}`
      const { version: node } = process
      return [[['', 'node', '', '', `v${version}`, node, major, minor, platform], 1]]
    },
    [
      'build_date',
      'compiler',
      'git_commit',
      'git_tree_state',
      'git_version',
      'go_version',
      'major',
      'minor',
      'platform',
    ],
  ),
]

/** Go's name of the architecture this runs on. */
const goArch = (): string => (process.arch === 'x64' ? 'amd64' : process.arch)

export interface ModeReadings {
  readonly mode: string
  readonly fallBacks: number
}

export const modeTable: Table<ModeReadings> = [
  gauge(
    'usher_proxy_mode',
    'Always 1; the label is the running mode.',
    ({ mode }) => [[[mode], 1]],
    ['mode'],
  ),
  counter(
    'usher_mode_fallbacks_total',
    'Times the running mode stopped working and Usher fell back to another.',
    ({ fallBacks }) => fallBacks,
  ),
]

const answersByCode = ({ tallies }: ProbeCounts, path: Probe['path']): Sample[] =>
  [...(tallies.get(`proxier ${path}`)?.codes ?? [])].map(([code, value]): Sample => [
    [String(code)],
    value,
  ])

/** kube-proxy's own counters. */
export const probeTable: Table<ProbeCounts> = (['healthz', 'livez'] as const).map(path =>
  counter(
    `kubeproxy_proxy_${path}_total`,
    `Answers of /${path} on the health address, by HTTP status code.`,
    probes => answersByCode(probes, path),
    ['code'],
  ),
)

/** What `/metrics/slis` shows (KEP-3466). */
export const sliTable: Table<ProbeCounts> = [
  gauge(
    'kubernetes_healthcheck',
    'Whether the last answer of a health check was healthy, 1 or 0.',
    ({ tallies }) =>
      [...tallies.values()].map(({ probe, last }): Sample => [
        [probe.check, probe.path],
        last === 200 ? 1 : 0,
      ]),
    ['name', 'type'],
  ),
  counter(
    'kubernetes_healthchecks_total',
    'Answers of all health checks, by result.',
    ({ tallies }) => [...tallies.values()].flatMap(answersByResult),
    ['name', 'status', 'type'],
  ),
]

const answersByResult = ({ probe, codes }: Tally): Sample[] => {
  const count = { success: 0, error: 0 }
  for (const [code, number] of codes) count[code === 200 ? 'success' : 'error'] += number
  return Object.entries(count)
    .filter(([, value]) => value > 0)
    .map(([status, value]) => [[probe.check, status, probe.path], value])
}

export interface SourceReadings {
  /** See `SourceStatus.lastGoodAt`; undefined before the first. */
  readonly ageSeconds: number | undefined
  /** How many things cannot be honoured now. */
  readonly problems: number
}

export const sourceReadings = (
  { lastGoodAt }: Pick<SourceStatus, 'lastGoodAt'>,
  problems: number,
  epochMs = Date.now(),
): SourceReadings => ({
  ageSeconds:
    lastGoodAt === undefined ? undefined : Math.max(0, epochMs - lastGoodAt) / 1000,
  problems,
})

export const sourceTable: Table<SourceReadings> = [
  gauge(
    'usher_source_age_seconds',
    'Seconds since the served state was last known to match the source, apart from objects counted by usher_problems; absent before the first state.',
    ({ ageSeconds }) => ageSeconds,
  ),
  gauge(
    'usher_problems',
    'Configuration problems: objects, or parts of them, that currently have no effect; /status names them.',
    ({ problems }) => problems,
  ),
]

interface CheckReadings {
  readonly snapshots: readonly Snapshot[]
  readonly checksOf: ChecksOf
}

export const checkTable: readonly Metric<CheckReadings>[] = [
  gauge(
    'usher_endpoint_up',
    '1 for each endpoint that its check finds up, 0 for one that is down; no line for endpoints without a check.',
    ({ snapshots, checksOf }) =>
      snapshots.flatMap(({ servicePorts }) =>
        [...servicePorts.values()].flatMap(port => checkSamples(port, checksOf)),
      ),
    ['service_port', 'protocol', 'endpoint'],
  ),
]

/** Of each ServicePort of each IP family. */
export const stateTable: Table<readonly PortState[]> = [
  gauge(
    'usher_service_state',
    'Always 1; the label is the state of the ServicePort now: ok, degraded (an endpoint is down or cooling down, or clients on this node are not served by policy Local), failing (clients fail now), down (no endpoint is up), no endpoints (or none for this node), paused, draining.',
    states =>
      states.map(({ servicePort: { name, protocol, family }, state }): Sample => [
        [name, protocol, family, state],
        1,
      ]),
    ['service_port', 'protocol', 'ip_family', 'state'],
  ),
]

const checkSamples = (servicePort: ServicePort, checksOf: ChecksOf): Sample[] => {
  const checkOf = checksOf(servicePort)
  if (checkOf === undefined) return []
  return servicePort.endpoints.flatMap((endpoint): Sample[] => {
    const key = bindText(endpoint)
    const health = checkOf(key)
    if (health === undefined) return []
    return [[[servicePort.name, servicePort.protocol, key], health.up ? 1 : 0]]
  })
}
