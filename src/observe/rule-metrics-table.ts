import type { Placement } from '../capture/capture.ts'
import {
  counterNames,
  type CounterName,
  type PacketCounters,
} from '../kernel/iptables/packet-counters.ts'
import type { RuleCount } from '../kernel/proxier.ts'
import type { ModeName } from '../mode/mode.ts'
import { isOnLoopback } from '../mode/hybrid-mode.ts'
import { ipFamilies } from '../util/ip.ts'
import type { FailingBinds } from './connection-log.ts'
import { counter, gauge, histogram, type Histogram, type Sample } from './exposition.ts'
import { byFamily, ofFamily, type Table } from './metrics-table.ts'
import type { RuleMetrics } from './rule-metrics.ts'

const countRules =
  (of: (count: RuleCount) => number) =>
  ({ families }: RuleMetrics): Sample[] =>
    ipFamilies.flatMap(family => {
      const { rules } = families[family]
      if (rules === undefined) return []
      return (['filter', 'nat'] as const).map((table): Sample => [
        [table, family],
        of(rules[table]),
      ])
    })

/** kube-proxy's, of its modes that write what changed apart from all. */
const workTable: Table<RuleMetrics> = [
  histogram(
    'kubeproxy_sync_full_proxy_rules_duration_seconds',
    'Duration of full syncs of the rules.',
    ({ families }) => byFamily(families, ({ full }) => full),
    ofFamily,
  ),
  histogram(
    'kubeproxy_sync_partial_proxy_rules_duration_seconds',
    'Duration of partial syncs of the rules.',
    ({ families }) => byFamily(families, ({ partial }) => partial),
    ofFamily,
  ),
]

/** kube-proxy's, of iptables mode. */
const iptablesTable: Table<RuleMetrics> = [
  gauge(
    'kubeproxy_sync_proxy_rules_iptables_total',
    'Current number of rules.',
    countRules(({ total }) => total),
    ['table', 'ip_family'],
  ),
  gauge(
    'kubeproxy_sync_proxy_rules_iptables_last',
    'Rules written by the last sync.',
    countRules(({ written }) => written),
    ['table', 'ip_family'],
  ),
  counter(
    'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
    'Partial syncs that iptables-restore rejected; a full sync followed each.',
    ({ families }) => byFamily(families, ({ partialFailures }) => partialFailures),
    ofFamily,
  ),
]

const counted =
  (name: CounterName) =>
  ({ read }: Pick<PacketCounters, 'read'>): Sample[] => {
    const packets = read(name)
    return packets === undefined ? [] : [[[], packets]]
  }

/** kube-proxy's, of iptables mode: what its rules count. */
export const countedTable: Table<Pick<PacketCounters, 'read'>> = [
  counter(
    'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
    'Packets dropped because conntrack considered them invalid.',
    counted(counterNames.invalidDropped),
  ),
  counter(
    'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
    'Packets accepted for node ports on loopback.',
    counted(counterNames.localhostNodePorts),
  ),
]

const allFailures = ({ families }: RuleMetrics): Sample[] =>
  byFamily(families, one => one.fullFailures + one.partialFailures)

/** kube-proxy's, of the modes that have iptables-restore write rules. */
const restoreTable: Table<RuleMetrics> = [
  counter(
    'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
    'Times iptables-restore rejected the rules.',
    allFailures,
    ofFamily,
  ),
]

/** kube-proxy's, of nftables mode. */
const nftablesTable: Table<RuleMetrics> = [
  counter(
    'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
    'Times nft could not write a partial or full sync.',
    allFailures,
    ofFamily,
  ),
]

const repairTable: Table<RuleMetrics> = [
  counter(
    'usher_kernel_repairs_total',
    "Times another program removed Usher's rules and Usher restored them.",
    ({ families }) => byFamily(families, ({ repairs }) => repairs),
    ofFamily,
  ),
]

/** Of what a mode does to the kernel's rules. */
export const kernelTables = {
  nftables: [...workTable, ...nftablesTable, ...repairTable],
  iptables: [...workTable, ...iptablesTable, ...restoreTable, ...repairTable],
  ipvs: [...restoreTable, ...repairTable],
  userspace: [],
} as const satisfies Readonly<Record<ModeName, Table<RuleMetrics>>>

export interface LoopbackNodePorts {
  readonly placements: readonly Placement[]
  readonly failingBinds: FailingBinds | undefined
}

/** kube-proxy 1.37's, of nftables mode with node ports on loopback. */
export const loopbackTable: Table<LoopbackNodePorts> = [
  gauge(
    'kubeproxy_nftables_localhost_nodeport_listeners',
    'Node ports that the relay serves on loopback.',
    ({ placements, failingBinds }) =>
      ipFamilies.map((family): Sample => {
        const binds = placements
          .filter(one => one.servicePort.family === family)
          .filter(one => isOnLoopback(one.listenerId) && isServed(one))
          .flatMap(({ listenerId, vips }) =>
            vips.flatMap(vip => vip.binds).map(bind => ({ listenerId, bind })),
          )
        const { length } = binds.filter(
          one => !failingBinds?.has(one.listenerId, one.bind),
        )
        return [[family], length]
      }),
    ofFamily,
  ),
  counter(
    'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total',
    'Times Usher could not listen on a node port on loopback.',
    ({ failingBinds }) =>
      ipFamilies.map((family): Sample => [
        [family],
        failingBinds?.loopbackFailures[family] ?? 0,
      ]),
    ofFamily,
  ),
]

const isServed = ({ servicePort }: Placement): boolean =>
  servicePort.external.endpoints.length > 0

const countOf = ({ counts }: Histogram): number => counts.reduce((sum, n) => sum + n, 0)

/** Of userspace mode with a capture by rules. */
export const captureTable: Table<RuleMetrics> = [
  counter(
    'usher_capture_syncs_total',
    'Syncs of the kernel rules: partial, or full in one transaction.',
    ({ families }) =>
      ipFamilies.flatMap((family): Sample[] => [
        [[family, 'changed'], countOf(families[family].partial)],
        [[family, 'replaced'], countOf(families[family].full)],
      ]),
    ['ip_family', 'work'],
  ),
  counter(
    'usher_capture_sync_seconds_total',
    'Seconds spent in these syncs.',
    ({ families }) => byFamily(families, ({ full, partial }) => full.sum + partial.sum),
    ofFamily,
  ),
  counter(
    'usher_capture_repairs_total',
    "Times another program changed Usher's rules, by whether Usher could restore them.",
    ({ families }) =>
      ipFamilies.flatMap((family): Sample[] => [
        [[family, 'ok'], families[family].repairs],
        [[family, 'failed'], families[family].failedRepairs],
      ]),
    ['ip_family', 'result'],
  ),
]
