import t from 'tap'
import type { ServicePort } from '../../src/model/snapshot.ts'
import { type Metric, writeMetrics } from '../../src/observe/exposition.ts'
import {
  clusterTable,
  modeTable,
  requestTable,
  sourceReadings,
  sourceTable,
  syncTable,
  versionTable,
} from '../../src/observe/metrics-table.ts'
import { kernelTables } from '../../src/observe/rule-metrics-table.ts'
import { RuleMetrics } from '../../src/observe/rule-metrics.ts'
import { SyncMetrics } from '../../src/observe/sync-metrics.ts'
import { nodePort, servicePort } from '../support/service-ports.ts'
import { badNames, parse } from './parse-exposition.ts'

/** Values of families alone, by `name` and labels. */
const read = async <T>(table: readonly Metric<T>[], from: T) => {
  const parsed = parse(Buffer.concat(await writeMetrics(table, from)).toString())
  const bad = badNames(parsed)
  if (bad.length > 0) throw new Error(bad.join())
  const of = (name: string) => Object.fromEntries(parsed.get(name)?.values ?? [])
  return { parsed, of }
}

const startedAt = 1_700_000_000_000

const syncMetrics = () => {
  const time = { now: startedAt }
  const metrics = new SyncMetrics(() => time.now)
  return { metrics, time, read: () => read(syncTable, metrics) }
}

t.test('what kube-proxy says of its syncs', async t => {
  const duration = 'kubeproxy_sync_proxy_rules_duration_seconds'
  const programming = 'kubeproxy_network_programming_duration_seconds'
  const bounds = (values: object) =>
    Object.keys(values).flatMap(key => /_bucket.*le="([^"]+)"/.exec(key)?.[1] ?? [])

  t.test('is nothing before there was one', async t => {
    const { parsed } = await syncMetrics().read()
    t.strictSame(
      [...parsed.values()].map(({ values }) => values.size),
      [0, 0, 0, 0],
    )
    t.strictSame(
      [...parsed.values()].map(({ type }) => type),
      ['histogram', 'gauge', 'gauge', 'histogram'],
    )
  })

  t.test('has its times, by family', async t => {
    const { metrics, time, read: values } = syncMetrics()
    time.now += 1500
    metrics.queued('IPv4')
    time.now += 500
    metrics.applied('IPv4', { seconds: 0.003, triggerTimes: [] })
    const { of } = await values()
    const base = 'kubeproxy_sync_proxy_rules_last_'
    t.strictSame(of(`${base}queued_timestamp_seconds`), {
      '{ip_family="IPv4"}': startedAt / 1000 + 1.5,
    })
    t.strictSame(of(`${base}timestamp_seconds`), {
      '{ip_family="IPv4"}': startedAt / 1000 + 2,
    })
  })

  t.test('has upstream’s buckets', async t => {
    const { metrics, read: values } = syncMetrics()
    metrics.applied('IPv6', { seconds: 0.003, triggerTimes: [] })
    const { of } = await values()
    t.strictSame(
      bounds(of(duration)).join(' '),
      '0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 +Inf',
    )
    t.equal(of(duration)['_bucket{ip_family="IPv6",le="0.002"}'], 0)
    t.equal(of(duration)['_bucket{ip_family="IPv6",le="0.004"}'], 1)
    t.equal(of(duration)['_sum{ip_family="IPv6"}'], 0.003)
    const fine = bounds(of(programming))
    t.equal(fine.length, 2 + 59 + 12 + 7 + 1)
    t.equal(fine.slice(0, 4).join(' '), '0.25 0.5 1 2')
    t.equal(
      fine.slice(58).join(' '),
      '57 58 59 60 65 70 75 80 85 90 95 100 105 110 115 120 150 180 210 240 270 300 +Inf',
    )
  })

  t.test('counts how long each change took to be applied', async t => {
    const { metrics, time, read: values } = syncMetrics()
    time.now += 10_000
    const triggerTimes = [
      startedAt - 1, // before this process
      time.now - 200,
      time.now - 2500,
      time.now + 50, // the clocks differ
    ]
    metrics.applied('IPv4', { seconds: 0, triggerTimes })
    const { of } = await values()
    const found = of(programming)
    t.equal(found['_count{ip_family="IPv4"}'], 3)
    t.equal(found['_bucket{ip_family="IPv4",le="0.25"}'], 2)
    t.equal(found['_bucket{ip_family="IPv4",le="3"}'], 3)
    t.ok(Math.abs((found['_sum{ip_family="IPv4"}'] ?? 0) - 2.7) < 1e-9)
  })

  t.test('adds up the changes that were taken in', async t => {
    const { metrics } = syncMetrics()
    metrics.taken({ services: 1, endpoints: 2 })
    metrics.taken({ services: 0, endpoints: 5 })
    t.strictSame(metrics.changes, { services: 1, endpoints: 7 })
  })
})

const nodePortVip = nodePort('0.0.0.0')
const policies: readonly ServicePort[] = [
  servicePort('fine', { internal: { verdict: 'forward', endpoints: [] } }),
  servicePort('none'),
  servicePort('inside', { internal: { verdict: 'drop', endpoints: [] } }),
  servicePort('unreachable', { external: { verdict: 'drop', endpoints: [] } }),
  servicePort('outside', {
    vips: [nodePortVip],
    external: { verdict: 'drop', endpoints: [] },
  }),
  servicePort('both', {
    vips: [nodePortVip],
    internal: { verdict: 'drop', endpoints: [] },
    external: { verdict: 'drop', endpoints: [] },
  }),
]

const clusterReadings = {
  pending: { services: 1, endpoints: 2 },
  changes: { services: 30, endpoints: 40 },
  snapshots: [
    {
      family: 'IPv4' as const,
      servicePorts: new Map(policies.map(port => [port.key, port])),
      healthChecks: new Map(),
    },
    { family: 'IPv6' as const, servicePorts: new Map(), healthChecks: new Map() },
  ],
}

const requests = [
  { code: '200', method: 'GET', host: '10.96.0.1:443', count: 7 },
  { code: '<error>', method: 'GET', host: '10.96.0.1:443', count: 1 },
]

t.test('what else kube-proxy says', async t => {
  const { of, parsed } = await read(clusterTable, clusterReadings)
  const rules = 'kubeproxy_sync_proxy_rules'
  t.strictSame(of(`${rules}_service_changes_pending`), { '{}': 1 })
  t.strictSame(of(`${rules}_endpoint_changes_pending`), { '{}': 2 })
  t.strictSame(of(`${rules}_service_changes_total`), { '{}': 30 })
  t.strictSame(of(`${rules}_endpoint_changes_total`), { '{}': 40 })
  t.strictSame(of(`${rules}_no_local_endpoints_total`), {
    '{ip_family="IPv4",traffic_policy="internal"}': 2,
    '{ip_family="IPv4",traffic_policy="external"}': 2,
    '{ip_family="IPv6",traffic_policy="internal"}': 0,
    '{ip_family="IPv6",traffic_policy="external"}': 0,
  })
  t.equal(parsed.get(`${rules}_no_local_endpoints_total`)?.type, 'gauge')
  const told = await read(requestTable, requests)
  t.strictSame(told.of('rest_client_requests_total'), {
    '{code="200",host="10.96.0.1:443",method="GET"}': 7,
    '{code="<error>",host="10.96.0.1:443",method="GET"}': 1,
  })
  const { of: ofVersion } = await read(versionTable, '1.2.3')
  const [build] = Object.keys(ofVersion('kubernetes_build_info'))
  t.match(build, /git_version="v1\.2\.3".*platform="\w+\/\w+"/)
})

t.test('the age of the source is that of its last word', async t => {
  const at = (lastGoodAt: number | undefined) =>
    read(sourceTable, sourceReadings({ lastGoodAt }, 3, startedAt))
  t.strictSame((await at(undefined)).of('usher_source_age_seconds'), {})
  const { of } = await at(startedAt - 12_500)
  t.strictSame(of('usher_source_age_seconds'), { '{}': 12.5 })
  t.strictSame(of('usher_problems'), { '{}': 3 })
})

t.test('what kube-proxy says of its kernel modes', async t => {
  const metrics = new RuleMetrics()
  const rules = { filter: { total: 9, written: 2 }, nat: { total: 30, written: 7 } }
  metrics.synced('IPv4', { work: 'full', rules }, 0.003)
  metrics.synced('IPv4', { work: 'partial', rules }, 0.0005)
  metrics.synced('IPv4', { work: 'nothing', rules }, 0.1)
  metrics.restoreFailed('IPv4', 'partial')
  metrics.restoreFailed('IPv4', 'full')
  metrics.repaired('IPv6', 'a chain', '')
  const prefix = 'kubeproxy_sync_proxy_rules_iptables'

  t.test('in iptables mode', async t => {
    const { of } = await read(kernelTables.iptables, metrics)
    t.match(of('kubeproxy_sync_full_proxy_rules_duration_seconds'), {
      '_count{ip_family="IPv4"}': 1,
      '_bucket{ip_family="IPv4",le="0.002"}': 0,
      '_bucket{ip_family="IPv4",le="0.004"}': 1,
      '_count{ip_family="IPv6"}': 0,
    })
    t.match(of('kubeproxy_sync_partial_proxy_rules_duration_seconds'), {
      '_count{ip_family="IPv4"}': 1,
    })
    t.strictSame(of(`${prefix}_total`), {
      '{table="filter",ip_family="IPv4"}': 9,
      '{table="nat",ip_family="IPv4"}': 30,
    })
    t.strictSame(of(`${prefix}_last`), {
      '{table="filter",ip_family="IPv4"}': 2,
      '{table="nat",ip_family="IPv4"}': 7,
    })
    t.strictSame(of(`${prefix}_restore_failures_total`), {
      '{ip_family="IPv4"}': 2,
      '{ip_family="IPv6"}': 0,
    })
    t.strictSame(of(`${prefix}_partial_restore_failures_total`), {
      '{ip_family="IPv4"}': 1,
      '{ip_family="IPv6"}': 0,
    })
    t.strictSame(of('usher_kernel_repairs_total'), {
      '{ip_family="IPv4"}': 0,
      '{ip_family="IPv6"}': 1,
    })
  })

  t.test('and in ipvs mode, where there are no such rules to count', async t => {
    const { parsed } = await read(kernelTables.ipvs, metrics)
    t.strictSame(
      [...parsed.keys()].toSorted(),
      [`${prefix}_restore_failures_total`, 'usher_kernel_repairs_total'].toSorted(),
    )
  })

  t.test('and in nftables mode, where none are of iptables', async t => {
    const { of, parsed } = await read(kernelTables.nftables, metrics)
    t.strictSame(
      [...parsed.keys()],
      [
        'kubeproxy_sync_full_proxy_rules_duration_seconds',
        'kubeproxy_sync_partial_proxy_rules_duration_seconds',
        'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
        'usher_kernel_repairs_total',
      ],
    )
    t.strictSame(of('kubeproxy_sync_proxy_rules_nftables_sync_failures_total'), {
      '{ip_family="IPv4"}': 2,
      '{ip_family="IPv6"}': 0,
    })
  })
})

t.test('which mode runs, and how often another had to give way', async t => {
  const { of } = await read(modeTable, { mode: 'userspace', fallBacks: 2 })
  t.strictSame(of('usher_proxy_mode'), { '{mode="userspace"}': 1 })
  t.strictSame(of('usher_mode_fallbacks_total'), { '{}': 2 })
})
