import t from 'tap'
import type { Placement } from '../../src/capture/capture.ts'
import type { Endpoint, ServicePort, Snapshot } from '../../src/model/snapshot.ts'
import { Health } from '../../src/observe/health.ts'
import { buildStatusDocument } from '../../src/observe/status-document.ts'
import type { StatusInput } from '../../src/observe/status-document.ts'
import type { Bind, BindState, ListenerStats } from '../../src/relay/relay.ts'
import { FakeClock } from '../support/fake-clock.ts'

const endpoint = (address: string, some: Partial<Endpoint> = {}): Endpoint => ({
  address,
  port: 8080,
  ready: true,
  serving: true,
  terminating: false,
  nodeName: '',
  zone: '',
  ...some,
})

const vip = { kind: 'ClusterIP', address: '127.96.0.10', port: 80 } as const

const servicePort = (some: Partial<ServicePort> = {}): ServicePort => ({
  key: 'default/web:http/TCP',
  name: 'default/web:http',
  namespace: 'default',
  serviceName: 'web',
  portName: 'http',
  protocol: 'TCP',
  family: 'IPv4',
  vips: [vip],
  affinityMs: 0,
  endpoints: [],
  eligible: [],
  ...some,
})

const bind: Bind = { address: '127.96.0.10', port: 80 }

const listener = (some: Partial<ListenerStats> = {}): ListenerStats => ({
  id: 'one',
  name: 'default/web:http',
  protocol: 'TCP',
  binds: [{ bind, state: 'listening' }],
  endpoints: [],
  counters: {
    accepted: 10,
    active: 2,
    dialAttempts: 12,
    dialRetries: 3,
    failed: { SC: 1, KD: 4 },
    bytesToBackend: 100,
    bytesToClient: 200,
    datagramsToBackend: 7,
    datagramsToClient: 8,
    datagramsDropped: {},
    dialSeconds: [],
    dialSecondsSum: 0,
  },
  lastError: 'ECONNREFUSED',
  wanted: true,
  ...some,
})

const placement = (some: Partial<Placement> = {}): Placement => ({
  servicePort: servicePort(),
  listenerId: 'one',
  vips: [{ vip, capture: 'local', binds: [bind], reason: '' }],
  ...some,
})

const snapshot = (...servicePorts: readonly ServicePort[]): Snapshot => ({
  family: servicePorts[0]?.family ?? 'IPv4',
  servicePorts: new Map(servicePorts.map(each => [each.key, each])),
})

const build = (some: Partial<StatusInput> & { listeners?: readonly ListenerStats[] }) =>
  buildStatusDocument({
    version: '1.2.3',
    startedAt: 0,
    draining: false,
    snapshots: [snapshot(servicePort())],
    placements: [placement()],
    stats: {
      listeners: some.listeners ?? [listener()],
      fds: { used: 5, limit: 100 },
      acceptPaused: false,
    },
    source: { name: 'routes', synced: true, lastGoodAt: 1, error: '' },
    problems: [],
    health: { healthy: true, reasons: [] },
    ...some,
  })

/** The status of the one VIP when its binds are in these states. */
const vipWith = (binds: readonly Bind[], states: readonly BindState[], reason = '') =>
  build({
    listeners: [listener({ binds: states })],
    placements: [placement({ vips: [{ vip, capture: 'none', binds, reason }] })],
  }).servicePorts[0]?.vips[0]

t.test('a document joins snapshot, placement and listener', async t => {
  const { servicePorts, ...rest } = build({
    health: { healthy: false, reasons: ['something'] },
  })
  t.strictSame(rest, {
    version: '1.2.3',
    mode: 'userspace',
    startedAt: '1970-01-01T00:00:00.000Z',
    healthy: false,
    unhealthy: ['something'],
    draining: false,
    source: { name: 'routes', synced: true, lastGoodAt: 1, error: '' },
    problems: [],
    fds: { used: 5, limit: 100 },
    acceptPaused: false,
  })
  t.strictSame(servicePorts, [
    {
      servicePort: 'default/web:http',
      protocol: 'TCP',
      family: 'IPv4',
      affinityMs: 0,
      vips: [
        {
          kind: 'ClusterIP',
          vip: '127.96.0.10:80',
          capture: 'local',
          listen: '127.96.0.10:80',
          state: 'listening',
          reason: '',
        },
      ],
      endpoints: [],
      active: 2,
      accepted: 10,
      failed: 5,
      retries: 3,
      bytesToBackend: 100,
      bytesToClient: 200,
      datagrams: 15,
      lastError: 'ECONNREFUSED',
    },
  ])
})

t.test('endpoints have their condition and what the relay knows of them', async t => {
  const endpoints = [
    endpoint('10.0.0.1'),
    endpoint('10.0.0.2', { ready: false, terminating: true }),
    endpoint('10.0.0.3', { ready: false, serving: false, terminating: true }),
    endpoint('10.0.0.4', { ready: false }),
  ]
  const { servicePorts } = build({
    snapshots: [snapshot(servicePort({ endpoints, eligible: endpoints.slice(0, 1) }))],
    listeners: [
      listener({ endpoints: [{ key: '10.0.0.1:8080', active: 3, failures: 9 }] }),
    ],
  })
  t.strictSame(
    servicePorts[0]?.endpoints.map(each => Object.values(each)),
    [
      ['10.0.0.1:8080', 'ready', true, 3, 9],
      ['10.0.0.2:8080', 'terminating', false, 0, 0],
      ['10.0.0.3:8080', 'not ready', false, 0, 0],
      ['10.0.0.4:8080', 'not ready', false, 0, 0],
    ],
  )
})

const other: Bind = { address: '0.0.0.0', port: 30000 }
const listening = (to: Bind): BindState => ({ bind: to, state: 'listening' })
const binding = (to: Bind): BindState => ({ bind: to, state: 'binding' })
const closed = (to: Bind): BindState => ({ bind: to, state: 'closed', reason: 'none' })
const failed = (to: Bind): BindState => ({
  bind: to,
  state: 'failed',
  error: 'EACCES',
  since: 0,
})

t.test('a VIP is in the worst state of its binds', async t => {
  const cases: [BindState[], state: string, reason: string][] = [
    [[listening(bind), listening(other)], 'listening', ''],
    [[listening(bind), failed(other)], 'failed', 'EACCES'],
    [[closed(bind), failed(other)], 'failed', 'EACCES'],
    [[closed(bind), closed(other)], 'refusing', 'none'],
    [[listening(bind), binding(other)], 'binding', ''],
    [[listening(bind)], 'binding', 'not applied yet'],
    [[], 'binding', 'not applied yet'],
  ]
  for (const [states, state, reason] of cases)
    t.match(
      vipWith([bind, other], states),
      {
        state,
        reason: new RegExp(`^${reason}$`),
        listen: '127.96.0.10:80, 0.0.0.0:30000',
      },
      states.map(each => each.state).join(),
    )
})

t.test('binds of other VIPs do not matter', async t => {
  t.match(vipWith([bind], [listening(bind), failed(other)]), { state: 'listening' })
})

t.test('the reason of the placement is said too', async t => {
  const reason = 'not an address of this host'
  t.equal(vipWith([bind], [listening(bind)], reason)?.reason, reason)
  t.equal(vipWith([bind], [failed(bind)], reason)?.reason, `EACCES; ${reason}`)
})

t.test('a VIP that is not captured says why and listens nowhere', async t => {
  const vips = [
    { vip, capture: 'not captured', binds: [], reason: 'no proxy port is free' },
  ] as const
  const { servicePorts } = build({ placements: [placement({ vips })] })
  t.strictSame(servicePorts[0]?.vips, [
    {
      kind: 'ClusterIP',
      vip: '127.96.0.10:80',
      capture: 'not captured',
      listen: '',
      state: 'not captured',
      reason: 'no proxy port is free',
    },
  ])
})

t.test('a ServicePort that is not placed yet is shown with zeros', async t => {
  const { servicePorts } = build({ placements: [] })
  t.match(servicePorts, [
    {
      accepted: 0,
      lastError: '',
      vips: [{ state: 'not captured', reason: 'not applied yet' }],
    },
  ])
})

t.test('the same ServicePort in two families is joined each with its own', async t => {
  const six = servicePort({
    family: 'IPv6',
    vips: [{ ...vip, address: '2001:db8::1' }],
  })
  const { servicePorts } = build({
    snapshots: [snapshot(servicePort()), snapshot(six)],
    placements: [
      placement(),
      placement({ servicePort: six, listenerId: 'six', vips: [] }),
    ],
    listeners: [listener(), listener({ id: 'six', lastError: 'six' })],
  })
  t.strictSame(
    servicePorts.map(({ family, lastError }) => [family, lastError]),
    [
      ['IPv4', 'ECONNREFUSED'],
      ['IPv6', 'six'],
    ],
  )
})

const epoch = 1_700_000_000_000

const setUpHealth = (binds: readonly BindState[] = []) => {
  const clock = new FakeClock()
  const state = { synced: true, binds }
  const health = new Health({
    clock,
    syncPeriodMs: 30_000,
    binds: () => state.binds,
    sourceSynced: () => state.synced,
    epoch: () => epoch + clock.now(),
  })
  return { clock, health, state }
}
const failedSince = (address: string, since: number): BindState => ({
  bind: { address, port: 80 },
  state: 'failed',
  error: 'EADDRINUSE',
  since,
})

t.test('health', async t => {
  t.test('is red until the source has been read', async t => {
    const { health, state } = setUpHealth()
    state.synced = false
    t.strictSame(health.report().reasons, ['the source has not been read completely'])
    t.notOk(health.report().families.IPv4.healthy)
    state.synced = true
    t.ok(health.report().healthy)
  })

  t.test('is red when a change has waited for twice the sync period', async t => {
    const { clock, health } = setUpHealth()
    health.queued()
    clock.advance(59_999)
    t.ok(health.report().healthy)
    clock.advance(1)
    const { healthy, reasons } = health.report()
    t.notOk(healthy)
    t.strictSame(reasons, ['a change has been waiting to be applied for 60 s'])
  })

  t.test('goes by the oldest waiting change, not the newest', async t => {
    const { clock, health } = setUpHealth()
    health.queued()
    clock.advance(50_000)
    health.queued()
    clock.advance(10_000)
    t.notOk(health.report().healthy)
  })

  t.test('is green again once the change is applied, and says when', async t => {
    const { clock, health } = setUpHealth()
    t.equal(health.report().lastUpdated, undefined)
    health.queued()
    clock.advance(70_000)
    health.applied()
    t.strictSame(health.report(), {
      healthy: true,
      reasons: [],
      lastUpdated: epoch + 70_000,
      families: {
        IPv4: { healthy: true, lastUpdated: epoch + 70_000 },
        IPv6: { healthy: true, lastUpdated: epoch + 70_000 },
      },
    })
    clock.advance(1_000_000)
    t.ok(health.report().healthy, 'without changes nothing grows old')
  })

  t.test('is red in its family when a bind has failed for long', async t => {
    const { clock, health } = setUpHealth([failedSince('2001:db8::1', epoch)])
    clock.advance(59_999)
    t.ok(health.report().healthy)
    clock.advance(1)
    const { healthy, reasons, families } = health.report()
    t.notOk(healthy)
    t.strictSame(reasons, ['cannot listen on [2001:db8::1]:80 for 60 s: EADDRINUSE'])
    t.notOk(families.IPv6.healthy)
    t.ok(families.IPv4.healthy)
  })

  t.test('minds no bind that listens, waits or refuses', async t => {
    const { clock, health } = setUpHealth([
      { bind, state: 'listening' },
      { bind, state: 'binding' },
      { bind, state: 'closed', reason: 'no endpoints' },
    ])
    clock.advance(1_000_000)
    t.ok(health.report().healthy)
  })
})
