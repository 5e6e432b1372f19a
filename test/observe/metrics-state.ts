import { ProbeCounts } from '../../src/observe/probe-counts.ts'
import { RuleMetrics } from '../../src/observe/rule-metrics.ts'
import { SyncMetrics } from '../../src/observe/sync-metrics.ts'
import { newCounters } from '../../src/relay/counters.ts'
import type { ListenerStats, RelayStats } from '../../src/relay/relay.ts'
import { nodePort, servicePort } from '../support/service-ports.ts'

/** A state in which every metric has a line, the same at each call. */
const epoch = 1_700_000_000_000

const listener = (some: Partial<ListenerStats>): ListenerStats => ({
  id: 'IPv4 default/web:http/TCP',
  name: 'default/web:http',
  protocol: 'TCP',
  binds: [],
  endpoints: [],
  counters: newCounters(),
  lastError: '',
  failing: false,
  wanted: true,
  ...some,
})

const bind = { address: '127.0.0.1', port: 80 }

export const relayStats = (): RelayStats => ({
  listeners: [
    listener({
      binds: [
        { bind, state: 'listening' },
        { bind, state: 'failed', error: 'EADDRINUSE', since: 0 },
      ],
      endpoints: [
        {
          key: '192.0.2.1:80',
          active: 0,
          failures: 0,
          coolingDown: false,
          rttMs: 0.25,
          retransmits: 3,
        },
      ],
      counters: {
        ...newCounters(),
        accepted: 7,
        active: 2,
        dialAttempts: 9,
        dialRetries: 3,
        failed: { SC: 1, cD: 4 },
        bytesToBackend: 100,
        bytesToClient: 2 ** 40,
        dialSeconds: [3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1],
        dialSecondsSum: 9.5,
        held: 5,
        holdRefused: 6,
        queued: 7,
        queueRefused: 8,
        holdSeconds: [1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1],
        holdSecondsSum: 425.5,
      },
    }),
    listener({ name: 'a"b\\c\nd', binds: [{ bind, state: 'binding' }] }),
    listener({
      name: 'kube-system/dns',
      protocol: 'UDP',
      counters: {
        ...newCounters(),
        accepted: 5,
        active: 1,
        datagramsToBackend: 6,
        datagramsToClient: 8,
        datagramsDropped: { 'no-endpoint': 2 },
      },
    }),
  ],
  fds: { used: 12, limit: 1000 },
  acceptPaused: true,
  workers: [
    { thread: 1, restarts: 0, hangs: 0, heldBytes: 0 },
    { thread: 2, restarts: 4, hangs: 1, heldBytes: 192 },
  ],
  restarts: 1,
})

export const syncMetrics = (): SyncMetrics => {
  let now = epoch
  const metrics = new SyncMetrics(() => now)
  now += 1500
  metrics.queued('IPv4')
  now += 500
  metrics.applied('IPv4', { seconds: 0.003, triggerTimes: [epoch + 100] })
  metrics.taken({ services: 1, endpoints: 2 })
  return metrics
}

export const kernelMetrics = (): RuleMetrics => {
  const metrics = new RuleMetrics()
  const rules = { filter: { total: 9, written: 2 }, nat: { total: 30, written: 7 } }
  metrics.synced('IPv4', { work: 'full', rules }, 0.003)
  metrics.synced('IPv4', { work: 'partial', rules }, 0.0005)
  metrics.restoreFailed('IPv4', 'partial')
  metrics.restoreFailed('IPv4', 'full')
  metrics.repaired('IPv6', 'a chain', '')
  return metrics
}

export const captureMetrics = (): RuleMetrics => {
  const metrics = new RuleMetrics()
  metrics.synced('IPv4', { work: 'partial' }, 0.5)
  metrics.synced('IPv6', { work: 'full' }, 0.25)
  metrics.repaired('IPv4', 'a chain', '')
  metrics.repaired('IPv6', 'a chain', 'refused')
  return metrics
}

export const probeCounts = (): ProbeCounts => {
  const probes = new ProbeCounts()
  probes.answered({ check: 'proxier', path: 'healthz' }, 200)
  probes.answered({ check: 'proxier', path: 'healthz' }, 503)
  probes.answered({ check: 'proxier', path: 'livez' }, 200)
  probes.answered({ check: 'ping', path: 'healthz' }, 200)
  return probes
}

const policies = [
  servicePort('fine', { internal: { verdict: 'forward', endpoints: [] } }),
  servicePort('outside', {
    vips: [nodePort('0.0.0.0')],
    external: { verdict: 'drop', endpoints: [] },
  }),
]

export const figures = {
  epoch,
  pending: { services: 1, endpoints: 2 },
  snapshots: [
    {
      family: 'IPv4' as const,
      servicePorts: new Map(policies.map(port => [port.key, port])),
      healthChecks: new Map(),
    },
  ],
  requests: [{ code: '<error>', method: 'GET', host: '10.96.0.1:443', count: 7 }],
  version: '1.2.3',
  relay: { name: 'linux' as const, workers: 2 },
  lastGoodAt: epoch - 12_500,
  problems: 3,
}
