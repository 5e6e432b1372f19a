import t from 'tap'
import type { Test } from 'tap'
import { bindMetrics, gauge, writeMetrics } from '../../src/observe/exposition.ts'
import { FailingBinds } from '../../src/observe/connection-log.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { modeTable, probeTable } from '../../src/observe/metrics-table.ts'
import { ProbeCounts } from '../../src/observe/probe-counts.ts'
import { relayInfoMetrics } from '../../src/observe/relay-metrics.ts'
import { loopbackTable } from '../../src/observe/rule-metrics-table.ts'
import {
  newCounters,
  dialBuckets,
  type ListenerCounters,
} from '../../src/relay/counters.ts'
import {
  type EndpointStats,
  type ListenerStats,
  type RelayStats,
} from '../../src/relay/relay.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { servicePort } from '../support/service-ports.ts'
import { badNames, parse } from './parse-exposition.ts'

const counters = (some: Partial<ListenerCounters> = {}): ListenerCounters => ({
  ...newCounters(),
  ...some,
})

const listener = (some: Partial<ListenerStats> = {}): ListenerStats => ({
  id: 'IPv4 default/web:http/TCP',
  name: 'default/web:http',
  protocol: 'TCP',
  binds: [],
  endpoints: [],
  counters: counters(),
  lastError: '',
  failing: false,
  wanted: true,
  ...some,
})

const relayStats = (listeners: readonly ListenerStats[]): RelayStats => ({
  listeners,
  fds: { used: 12, limit: 1000 },
  acceptPaused: false,
})

const setUp = (t: Test, stats: () => RelayStats, healthy = () => true) => {
  const metrics = createMetrics({
    stats,
    health: () => ({ healthy: healthy(), sourceOk: true, version: '1.2.3' }),
  })
  t.teardown(() => metrics.close())
  const text = async () => Buffer.concat(await metrics.scrape()).toString()
  const values = async (name: string) =>
    Object.fromEntries(parse(await text()).get(name)?.values ?? [])
  return { metrics, text, values }
}

const web = 'service_port="default/web:http",protocol="TCP"'
const dns = 'service_port="kube-system/dns",protocol="UDP"'

t.test(
  'every family has a help text, a type and the right name for its type',
  async t => {
    const { text } = setUp(t, () => relayStats([listener()]))
    const families = parse(await text())
    for (const name of [
      'usher_connections_accepted_total',
      'usher_connections_active',
      'usher_connections_failed_total',
      'usher_dial_attempts_total',
      'usher_dial_retries_total',
      'usher_dial_duration_seconds',
      'usher_relayed_bytes_total',
      'usher_udp_flows_active',
      'usher_udp_flows_total',
      'usher_udp_datagrams_total',
      'usher_udp_drops_total',
      'usher_listeners',
      'usher_fds_used',
      'usher_fds_limit',
      'usher_accept_paused',
      'usher_healthy',
      'usher_build_info',
      'usher_event_loop_utilization',
      'usher_event_loop_delay_seconds',
      'process_resident_memory_bytes',
      'process_cpu_seconds_total',
      'process_start_time_seconds',
      'nodejs_heap_size_used_bytes',
    ])
      t.ok(families.has(name), name)
    t.strictSame(badNames(families), [])
  },
)

t.test('a TCP ServicePort has its counters and nothing of UDP', async t => {
  const { text } = setUp(t, () =>
    relayStats([
      listener({
        counters: counters({
          accepted: 7,
          active: 2,
          dialAttempts: 9,
          dialRetries: 3,
          failed: { SC: 1, cD: 4 },
          bytesToBackend: 100,
          bytesToClient: 2 ** 40,
        }),
      }),
    ]),
  )
  const families = parse(await text())
  const values = (name: string) => Object.fromEntries(families.get(name)?.values ?? [])
  t.strictSame(values('usher_connections_accepted_total'), { [`{${web}}`]: 7 })
  t.strictSame(values('usher_connections_active'), { [`{${web}}`]: 2 })
  t.strictSame(values('usher_dial_attempts_total'), { [`{${web}}`]: 9 })
  t.strictSame(values('usher_dial_retries_total'), { [`{${web}}`]: 3 })
  t.strictSame(values('usher_connections_failed_total'), {
    [`{${web},cause="SC"}`]: 1,
    [`{${web},cause="cD"}`]: 4,
  })
  t.strictSame(values('usher_relayed_bytes_total'), {
    [`{${web},direction="client->backend"}`]: 100,
    [`{${web},direction="backend->client"}`]: 2 ** 40,
  })
  t.strictSame(values('usher_udp_flows_total'), {})
  t.strictSame(values('usher_udp_datagrams_total'), {})
})

t.test('a UDP ServicePort has flows, datagrams and drops and nothing of TCP', async t => {
  const { text } = setUp(t, () =>
    relayStats([
      listener({
        name: 'kube-system/dns',
        protocol: 'UDP',
        counters: counters({
          accepted: 5,
          active: 1,
          datagramsToBackend: 6,
          datagramsToClient: 8,
          datagramsDropped: { 'no-endpoint': 2 },
        }),
      }),
    ]),
  )
  const families = parse(await text())
  const values = (name: string) => Object.fromEntries(families.get(name)?.values ?? [])
  t.strictSame(values('usher_udp_flows_active'), { [`{${dns}}`]: 1 })
  t.strictSame(values('usher_udp_flows_total'), { [`{${dns}}`]: 5 })
  t.strictSame(values('usher_udp_datagrams_total'), {
    [`{${dns},direction="client->backend"}`]: 6,
    [`{${dns},direction="backend->client"}`]: 8,
  })
  t.strictSame(values('usher_udp_drops_total'), { [`{${dns},reason="no-endpoint"}`]: 2 })
  t.strictSame(values('usher_connections_accepted_total'), {})
})

t.test('the dial histogram is cumulative, with sum and count', async t => {
  const dialSeconds = [3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1]
  const { values } = setUp(t, () =>
    relayStats([listener({ counters: counters({ dialSeconds, dialSecondsSum: 9.5 }) })]),
  )
  const found = await values('usher_dial_duration_seconds')
  const bucket = (le: string) => found[`_bucket{${web},le="${le}"}`]
  t.equal(bucket('0.0005'), 3)
  t.equal(bucket('0.025'), 3)
  t.equal(bucket('0.1'), 5)
  t.equal(bucket('5'), 5)
  t.equal(bucket('+Inf'), 6)
  t.equal(found[`_sum{${web}}`], 9.5)
  t.equal(found[`_count{${web}}`], 6)
  t.equal(Object.keys(found).length, dialBuckets.length + 3)
})

t.test('a ServicePort that has never dialled has no histogram', async t => {
  const { values } = setUp(t, () => relayStats([listener()]))
  t.strictSame(await values('usher_dial_duration_seconds'), {})
})

const half = (family: string, n: number) =>
  listener({
    id: family,
    counters: counters({
      accepted: n,
      failed: n === 1 ? { SC: 1 } : { SC: 2, KD: 3 },
      dialSeconds: dialBuckets.map(() => n).concat(n),
      dialSecondsSum: n,
    }),
  })

t.test('a ServicePort in both IP families is added up', async t => {
  const { text } = setUp(t, () => relayStats([half('IPv4', 1), half('IPv6', 2)]))
  const families = parse(await text())
  const values = (name: string) => Object.fromEntries(families.get(name)?.values ?? [])
  t.strictSame(values('usher_connections_accepted_total'), { [`{${web}}`]: 3 })
  t.strictSame(values('usher_connections_failed_total'), {
    [`{${web},cause="SC"}`]: 3,
    [`{${web},cause="KD"}`]: 3,
  })
  const histogram = values('usher_dial_duration_seconds')
  t.equal(histogram[`_count{${web}}`], 3 * (dialBuckets.length + 1))
  t.equal(histogram[`_sum{${web}}`], 3)
})

t.test(
  'an endpoint that two listeners of a ServicePort lead to has one line',
  async t => {
    const of = (id: string, rttMs: number) =>
      listener({
        id,
        endpoints: [
          {
            key: '10.0.0.1:80',
            active: 0,
            failures: 0,
            coolingDown: false,
            rttMs,
            retransmits: 2,
          },
        ],
      })
    const listeners = [of('IPv4 web', 500), of('IPv4 web on loopback', 250)]
    const { text } = setUp(t, () => relayStats(listeners))
    const lines = (await text()).split('\n')
    const series = lines.filter(line => /^usher_endpoint_(rtt|retr)/.test(line))
    t.strictSame(
      series.map(line => line.replace(/\{.*\}/, '')),
      ['usher_endpoint_rtt_seconds 0.5', 'usher_endpoint_retransmits_total 4'],
    )
  },
)

t.test('TCP and UDP of the same name stay apart', async t => {
  const { text } = setUp(t, () =>
    relayStats([
      listener({ name: 'kube-system/dns', counters: counters({ bytesToBackend: 1 }) }),
      listener({
        name: 'kube-system/dns',
        protocol: 'UDP',
        counters: counters({ bytesToBackend: 2 }),
      }),
    ]),
  )
  const bytes = parse(await text()).get('usher_relayed_bytes_total')?.values
  t.equal(bytes?.get(`{${dns},direction="client->backend"}`), 2)
  t.equal(bytes?.size, 4)
})

t.test('the series of a removed ServicePort disappear', async t => {
  let listeners = [listener(), listener({ name: 'default/old', id: 'old' })]
  const { text } = setUp(t, () => relayStats(listeners))
  t.match(await text(), 'default/old')
  listeners = [listener()]
  const after = await text()
  t.notMatch(after, 'default/old')
  t.match(after, 'default/web:http')
})

t.test('a label cannot break out of its quotes', async t => {
  const { text } = setUp(t, () => relayStats([listener({ name: 'a"b\\c\nd' })]))
  const accepted = parse(await text()).get('usher_connections_accepted_total')?.values
  t.same(
    [...(accepted?.keys() ?? [])],
    [String.raw`{service_port="a\"b\\c\nd",protocol="TCP"}`],
  )
})

t.test('listeners are counted by state, and those on their way out are not', async t => {
  const bind = { address: '127.0.0.1', port: 1 }
  const { values } = setUp(t, () =>
    relayStats([
      listener({
        binds: [
          { bind, state: 'listening' },
          { bind, state: 'listening' },
          { bind, state: 'failed', error: 'EADDRINUSE', since: 0 },
        ],
      }),
      listener({ id: 'old', wanted: false, binds: [{ bind, state: 'listening' }] }),
    ]),
  )
  t.strictSame(await values('usher_listeners'), {
    '{state="listening"}': 2,
    '{state="binding"}': 0,
    '{state="closed"}': 0,
    '{state="failed"}': 1,
  })
})

const endpoint = (key: string, some: Partial<EndpointStats> = {}): EndpointStats => ({
  key,
  active: 0,
  failures: 0,
  coolingDown: false,
  ...some,
})

t.test(
  'endpoints that the kernel was asked about have their round-trip time',
  async t => {
    const endpoints = [
      endpoint('192.0.2.1:80', { rttMs: 0.25, retransmits: 3 }),
      endpoint('192.0.2.2:80', { rttMs: 0, retransmits: 0 }),
      endpoint('192.0.2.3:80'),
      endpoint('192.0.2.4:80', { rttMs: 2 }),
    ]
    const { values } = setUp(t, () =>
      relayStats([listener({ endpoints }), listener({ endpoints, wanted: false })]),
    )
    const at = (key: string) => `{${web},endpoint="${key}"}`
    t.strictSame(await values('usher_endpoint_rtt_seconds'), {
      [at('192.0.2.1:80')]: 0.00025,
      [at('192.0.2.4:80')]: 0.002,
    })
    t.strictSame(await values('usher_endpoint_retransmits_total'), {
      [at('192.0.2.1:80')]: 3,
      [at('192.0.2.4:80')]: 0,
    })
  },
)

t.test(
  'workers of a relay that has some tell how often they were started again',
  async t => {
    const workers = [
      { thread: 1, restarts: 0, hangs: 0, heldBytes: 0 },
      { thread: 2, restarts: 4, hangs: 1, heldBytes: 192 },
    ]
    let stats: RelayStats = { ...relayStats([]), workers }
    const { values } = setUp(t, () => stats)
    t.strictSame(await values('usher_relay_worker_restarts_total'), {
      '{worker="1"}': 0,
      '{worker="2"}': 4,
    })
    t.strictSame(await values('usher_relay_worker_hangs_total'), {
      '{worker="1"}': 0,
      '{worker="2"}': 1,
    })
    t.strictSame(await values('usher_relay_held_bytes'), {
      '{worker="1"}': 0,
      '{worker="2"}': 192,
    })
    stats = relayStats([])
    t.strictSame(await values('usher_relay_worker_restarts_total'), {})
  },
)

t.test('which relay carries the bytes is a label', async t => {
  const chosen = { name: 'linux' as const, workers: 2 }
  const text = Buffer.concat(await writeMetrics(relayInfoMetrics, chosen)).toString()
  t.match(text, '\nusher_relay_info{relay="linux",workers="2",own_process="false"} 1\n')
})

t.test('file descriptors, pause, health and version are single values', async t => {
  const { text } = setUp(
    t,
    () => ({ ...relayStats([]), acceptPaused: true }),
    () => false,
  )
  const families = parse(await text())
  const value = (name: string, labels = '') =>
    families.get(name)?.values.get(`{${labels}}`)
  t.equal(value('usher_fds_used'), 12)
  t.equal(value('usher_fds_limit'), 1000)
  t.equal(value('usher_accept_paused'), 1)
  t.equal(value('usher_healthy'), 0)
  t.equal(value('usher_build_info', 'version="1.2.3"'), 1)
})

t.test('the process tells about itself', async t => {
  const { text } = setUp(t, () => relayStats([]))
  const families = parse(await text())
  const value = (name: string, labels = '') =>
    families.get(name)?.values.get(`{${labels}}`) ?? NaN
  t.ok(value('process_resident_memory_bytes') > 1e6)
  t.ok(value('process_cpu_seconds_total') > 0)
  t.ok(Math.abs(value('process_start_time_seconds') - Date.now() / 1000) < 600)
  t.ok(value('nodejs_heap_size_used_bytes') <= value('nodejs_heap_size_total_bytes'))
  if (process.platform === 'linux') t.ok(value('process_open_fds') > 3)
})

t.test('the delay of the event loop is that since the last scrape', async t => {
  const { values } = setUp(t, () => relayStats([]))
  const block = async (): Promise<void> => {
    await new Promise(resolve => setTimeout(resolve, 250))
    const end = performance.now() + 400
    while (performance.now() < end);
    await new Promise(resolve => setTimeout(resolve, 250))
  }
  await block()
  const first = await values('usher_event_loop_delay_seconds')
  t.equal(first['{quantile="1"}'], 0, 'nobody has asked, and nobody has looked')
  await block()
  const blocked = await values('usher_event_loop_delay_seconds')
  t.ok((blocked['{quantile="1"}'] ?? 0) > 0.2, JSON.stringify(blocked))
  t.ok((blocked['{quantile="0.5"}'] ?? 0) <= (blocked['{quantile="0.99"}'] ?? 0))
  const after = await values('usher_event_loop_delay_seconds')
  t.equal(after['{quantile="1"}'], 0, 'nothing was measured in between')
})

t.test(
  'the relay is asked once per scrape, and scrapes at one time share it',
  async t => {
    let asked = 0
    const { metrics } = setUp(t, () => {
      asked += 1
      return relayStats([listener()])
    })
    await metrics.scrape()
    t.equal(asked, 1)
    const [one, two] = await Promise.all([metrics.scrape(), metrics.scrape()])
    t.equal(one, two)
    t.equal(asked, 2)
    await metrics.scrape()
    t.equal(asked, 3)
  },
)

t.test('a scrape that failed does not spoil the next', async t => {
  let broken = true
  const { metrics } = setUp(t, () => {
    if (broken) throw new Error('relay is gone')
    return relayStats([])
  })
  await t.rejects(metrics.scrape(), /relay is gone/)
  broken = false
  await t.resolves(metrics.scrape())
})

t.test('a large scrape lets the event loop run while listeners change', async t => {
  const many = Array.from({ length: 3000 }, (_, i) =>
    listener({ id: `${i}`, name: `default/s${i}`, counters: counters({ accepted: i }) }),
  )
  let listeners = many
  const { text } = setUp(t, () => relayStats(listeners))
  let turns = 0
  const turn = () => {
    turns += 1
    listeners = []
    for (const { counters: live } of many) (live as ListenerCounters).accepted += 1
    if (turns < 100) setImmediate(turn)
  }
  setImmediate(turn)
  const accepted = parse(await text()).get('usher_connections_accepted_total')?.values
  t.ok(turns >= 10, `${turns} turns`)
  t.equal(accepted?.size, 3000, 'the scrape shows the listeners of its beginning')
})

t.test('what others tell is scraped too', async t => {
  const metrics = createMetrics({
    stats: () => relayStats([listener()]),
    health: () => ({ healthy: true, sourceOk: true, version: '1.2.3' }),
    more: () => [
      ...bindMetrics(probeTable, new ProbeCounts()),
      ...bindMetrics([gauge('other', 'Something of another part.', () => 5)], undefined),
    ],
  })
  t.teardown(() => metrics.close())
  const families = parse(Buffer.concat(await metrics.scrape()).toString())
  for (const name of [
    'usher_connections_accepted_total',
    'kubeproxy_proxy_healthz_total',
    'process_open_fds',
  ])
    t.ok(families.has(name), name)
  t.strictSame(families.get('other')?.values, new Map([['{}', 5]]))
})

t.test('without a relay there are no metrics of one, until there is', async t => {
  let relay: RelayStats | undefined
  let mode = 'iptables'
  const metrics = createMetrics({
    stats: async () => relay,
    health: () => ({ healthy: true, sourceOk: true, version: '1.2.3' }),
    more: () => bindMetrics(modeTable, { mode, fallBacks: 0 }),
  })
  t.teardown(() => metrics.close())
  const scrape = async () => Buffer.concat(await metrics.scrape()).toString()
  const before = await scrape()
  t.notMatch(before, /usher_(connections|fds|listeners)/)
  t.match(before, 'usher_proxy_mode{mode="iptables"} 1')
  relay = relayStats([listener()])
  mode = 'userspace'
  const after = await scrape()
  t.match(after, 'usher_connections_accepted_total')
  t.match(after, 'usher_proxy_mode{mode="userspace"} 1')
})

t.test(
  'node ports on loopback in nftables mode are counted as by kube-proxy 1.37',
  async t => {
    const failingBinds = new FailingBinds(new FakeClock())
    const served = { verdict: 'forward', endpoints: [{}] } as never
    const at = (key: string, port: number, external = served) => ({
      servicePort: servicePort('web', { external }),
      listenerId: `IPv4 ${key}`,
      vips: [
        {
          vip: { kind: 'NodePort', address: '127.0.0.1', port } as const,
          capture: 'listen' as const,
          binds: [{ address: '127.0.0.1', port }],
          reason: '',
        },
      ],
    })
    const nobody = { verdict: 'reject', endpoints: [] } as never
    const placements = [
      at('a on loopback', 30_001),
      at('b on loopback', 30_002),
      at('unserved on loopback', 30_003, nobody),
      at('kernel', 30_004),
    ]
    const failed = { state: 'failed', error: 'EADDRINUSE', since: 0 } as const
    const bind = { address: '127.0.0.1', port: 30_002 }
    failingBinds.changed('IPv4 b on loopback', { ...failed, bind })
    failingBinds.changed('IPv4 kernel', { ...failed, bind: { ...bind, port: 30_004 } })
    const pages = await writeMetrics(loopbackTable, { placements, failingBinds })
    const text = Buffer.concat(pages).toString()
    const name = 'kubeproxy_nftables_localhost_nodeport_listener'
    t.match(text, `${name}s{ip_family="IPv4"} 1\n`)
    t.match(text, `${name}s{ip_family="IPv6"} 0\n`)
    t.match(text, `${name}_creation_failures_total{ip_family="IPv4"} 1\n`)
  },
)
