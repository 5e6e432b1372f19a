import * as fc from 'fast-check'
import t from 'tap'
import type { Placement } from '../../src/capture/capture.ts'
import type { EndpointSpec } from '../../src/model/service.ts'
import type { Endpoint, ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'
import {
  buildStatusDocument,
  writeStatus,
  type StatusInput,
} from '../../src/observe/status-document.ts'
import { bindText, portViews, rowOf } from '../../src/observe/port-view.ts'
import type { EndpointRun } from '../../src/observe/status.ts'
import type { Bind, BindState, ListenerStats } from '../../src/relay/relay.ts'
import { loopbackKey } from '../../src/mode/hybrid-mode.ts'
import { newCounters } from '../../src/relay/counters.ts'
import { endpoint as endpointSpec, notReady, terminating } from '../support/objects.ts'
import { servicePort as plainServicePort } from '../support/service-ports.ts'

const checkedDown = {
  up: false,
  isKnown: true,
  isLost: true,
  forMs: 60_000,
  reason: 'refused',
  host: 'db',
}

const endpoint = (address: string, over: Partial<EndpointSpec> = {}): Endpoint => ({
  ...endpointSpec(address, over),
  port: 8080,
})

const vip = { kind: 'ClusterIP', address: '127.96.0.10', port: 80 } as const

const servicePort = (some: Partial<ServicePort> = {}): ServicePort =>
  plainServicePort('web', {
    key: 'default/web:http/TCP',
    name: 'default/web:http',
    portName: 'http',
    vips: [vip],
    ...some,
  })

const forward = (...endpoints: readonly Endpoint[]): Target => ({
  verdict: 'forward',
  endpoints,
})
const drop: Target = { verdict: 'drop', endpoints: [] }

const bind: Bind = { address: '127.96.0.10', port: 80 }

const listener = (some: Partial<ListenerStats> = {}): ListenerStats => ({
  id: 'one',
  name: 'default/web:http',
  protocol: 'TCP',
  binds: [{ bind, state: 'listening' }],
  endpoints: [],
  counters: {
    ...newCounters(),
    accepted: 10,
    active: 2,
    dialAttempts: 12,
    dialRetries: 3,
    held: 0,
    holdRefused: 6,
    queued: 7,
    failed: { SC: 1, KD: 4, CC: 3, PR: 0 },
    bytesToBackend: 100,
    bytesToClient: 200,
    datagramsToBackend: 7,
    datagramsToClient: 8,
  },
  lastError: 'ECONNREFUSED',
  failing: false,
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
  healthChecks: new Map(),
})

type Some = Partial<StatusInput> & { listeners?: readonly ListenerStats[] }

const input = (some: Some): StatusInput => ({
  version: '1.2.3',
  startedAt: 0,
  draining: false,
  orders: [],
  checksOf: () => undefined,
  snapshots: [snapshot(servicePort())],
  placements: [placement()],
  stats: {
    listeners: some.listeners ?? [listener()],
    fds: { used: 5, limit: 100 },
    acceptPaused: false,
  },
  source: { name: 'routes', synced: true, lastGoodAt: 1, error: '' },
  problems: [],
  health: { healthy: true, reasons: [], lastUpdated: 1 },
  mode: { name: 'userspace', mode: '', by: '', detail: '', passedOver: [] },
  ...some,
})

const build = (some: Some) => buildStatusDocument(input(some))

/** The status of the one VIP when its binds are in these states. */
const vipWith = (binds: readonly Bind[], states: readonly BindState[], reason = '') =>
  build({
    listeners: [listener({ binds: states })],
    placements: [placement({ vips: [{ vip, capture: 'none', binds, reason }] })],
  }).servicePorts[0]?.vips[0]

t.test('a document joins snapshot, placement and listener', async t => {
  const { servicePorts, ...rest } = build({
    orders: [
      {
        kind: 'pause',
        name: 'default/web:http',
        endpoint: '',
        since: 1000,
        until: undefined,
        reset: true,
      },
    ],
    health: { healthy: false, reasons: ['something'], lastUpdated: 1 },
    node: { name: 'n1', zone: 'z1', notEligible: '' },
  })
  t.strictSame(rest, {
    version: '1.2.3',
    mode: 'userspace',
    modeChoice: { name: 'userspace', askedBy: '', detail: '', passedOver: [] },
    startedAt: '1970-01-01T00:00:00.000Z',
    healthy: false,
    unhealthy: ['something'],
    draining: false,
    tookOver: null,
    node: { name: 'n1', zone: 'z1', notEligible: '' },
    source: { name: 'routes', synced: true, lastGoodAt: 1, error: '' },
    capture: null,
    relay: null,
    connectTime: null,
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
      verdicts: { internal: 'reject', external: 'reject', node: 'reject' },
      sourceRanges: null,
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
      state: 'paused',
      reason: 'by an operator: new clients wait',
      endpointCounts: { usable: 0, all: 0 },
      endpoints: [],
      paused: { since: '1970-01-01T00:00:01.000Z', until: null },
      options: {},
      holdMs: 0,
      active: 2,
      accepted: 10,
      failed: 5,
      failedBy: { SC: 1, KD: 4 },
      retries: 3,
      held: 0,
      holdRefused: 6,
      queued: 7,
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
    endpoint('10.0.0.2', terminating),
    endpoint('10.0.0.3', { ...terminating, serving: false }),
    endpoint('10.0.0.4', notReady),
  ] as const
  const internal = forward(endpoints[0])
  const { servicePorts } = build({
    snapshots: [
      snapshot(servicePort({ endpoints, internal, reachable: internal.endpoints })),
    ],
    listeners: [
      listener({
        endpoints: [{ key: '10.0.0.1:8080', active: 3, failures: 9, coolingDown: true }],
      }),
    ],
  })
  t.strictSame(
    servicePorts[0]?.endpoints.map(each => Object.values(each)),
    [
      ['10.0.0.1:8080', 'ready', true, 'all', 3, 9, true, null, null, 1, null],
      ['10.0.0.2:8080', 'terminating', false, 'none', 0, 0, false, null, null, 1, null],
      ['10.0.0.3:8080', 'terminating', false, 'none', 0, 0, false, null, null, 1, null],
      ['10.0.0.4:8080', 'not ready', false, 'none', 0, 0, false, null, null, 1, null],
    ],
  )
})

t.test('what operators have ordered for endpoints is in it', async t => {
  const endpoints = [endpoint('10.0.0.1', { weight: 7 }), endpoint('10.0.0.2')] as const
  const order = { name: 'default/web:http', since: 1000, until: undefined }
  const [one, two] = ['10.0.0.1:8080', '10.0.0.2:8080'] as const
  const ofOrders = (orders: StatusInput['orders']) =>
    build({ snapshots: [snapshot(servicePort({ endpoints }))], orders }).servicePorts[0]
      ?.endpoints
  const since = '1970-01-01T00:00:01.000Z'
  t.match(
    ofOrders([
      { ...order, kind: 'drain', endpoint: two, close: 'idle', until: 2000 },
      { ...order, kind: 'weight', endpoint: two, weight: 0 },
      { ...order, kind: 'drain', endpoint: one, close: 'all', name: 'default/other' },
    ]),
    [
      { drained: null, weight: 7, weightSince: null },
      {
        drained: { since, until: '1970-01-01T00:00:02.000Z', close: 'idle' },
        weight: 0,
        weightSince: since,
      },
    ],
  )
})

t.test('what checks say is in it, and how long clients wait', async t => {
  const endpoints = [endpoint('10.0.0.1'), endpoint('10.0.0.2')] as const
  const retry = { earlyClose: false, replay: 0, holdMs: 30_000, mostHeld: 1 }
  const before = Date.now()
  const { servicePorts } = build({
    snapshots: [snapshot(servicePort({ endpoints, retry }))],
    checksOf: ({ name }) =>
      name !== 'default/web:http'
        ? undefined
        : key =>
            key === '10.0.0.1:8080'
              ? checkedDown
              : { ...checkedDown, up: true, isKnown: false, forMs: 0, reason: '' },
  })
  const [first, second] = servicePorts[0]?.endpoints ?? []
  t.match(first?.check, { up: false, why: 'refused', host: 'db' })
  const since = Date.parse(first?.check?.since ?? '')
  t.ok(since >= before - 60_000 && since <= Date.now() - 60_000)
  t.strictSame(second?.check, { up: true, since: null, why: '', host: 'db' })
  t.equal(servicePorts[0]?.holdMs, 30_000)
  const udp = build({ snapshots: [snapshot(servicePort({ protocol: 'UDP', retry }))] })
  t.equal(udp.servicePorts[0]?.holdMs, 0)
})

const nodePortVip = { kind: 'NodePort', address: '0.0.0.0', port: 30000 } as const

t.test('an endpoint says whose connections it gets', async t => {
  const here = endpoint('10.0.0.1')
  const there = endpoint('10.0.0.2')
  const clients = (some: Partial<ServicePort>) => {
    const port = { endpoints: [here, there], reachable: [here, there], ...some }
    const { servicePorts } = build({ snapshots: [snapshot(servicePort(port))] })
    return servicePorts[0]?.endpoints.map(each => each.clients)
  }
  const vips = [vip, nodePortVip]
  const both = forward(here, there)
  t.strictSame(clients({ internal: both }), ['all', 'all'], 'ClusterIP alone')
  t.strictSame(
    clients({ vips, internal: both, external: both, externalFromNode: both }),
    ['all', 'all'],
    'policy Cluster',
  )
  t.strictSame(
    clients({ vips, internal: both, external: forward(here), externalFromNode: both }),
    ['all', 'internal+node'],
    'external policy Local',
  )
  t.strictSame(
    clients({ vips, internal: forward(here), external: both, externalFromNode: both }),
    ['all', 'external+node'],
    'internal policy Local',
  )
  t.strictSame(
    clients({ vips, internal: forward(here), external: drop, reachable: [here] }),
    ['internal', 'none'],
  )
})

t.test('a ServicePort tells its verdicts and source ranges', async t => {
  const { servicePorts } = build({
    snapshots: [
      snapshot(
        servicePort({
          internal: forward(),
          external: drop,
          sourceRanges: ['192.0.2.0/24'],
        }),
      ),
    ],
  })
  t.match(servicePorts[0], {
    verdicts: { internal: 'forward', external: 'drop', node: 'reject' },
    sourceRanges: ['192.0.2.0/24'],
  })
})

t.test('a ServicePort has one state, and the reason for it', async t => {
  const [one, two] = [endpoint('10.0.0.1'), endpoint('10.0.0.2')]
  const with2 = { endpoints: [one, two], internal: forward(one, two) }
  const served = { ...with2, reachable: [one, two] }
  const resting = (...keys: readonly string[]) => [
    listener({
      endpoints: keys.map(key => ({ key, active: 0, failures: 1, coolingDown: true })),
    }),
  ]
  const [first, second] = ['10.0.0.1:8080', '10.0.0.2:8080'] as const
  const order = { name: 'default/web:http', since: 1000, until: undefined }
  const pause = { ...order, kind: 'pause', endpoint: '', reset: false } as const
  const noneVips = [{ vip, capture: 'not captured', binds: [], reason: 'x' }] as const
  const none = [placement({ vips: noneVips })]
  const other = { ...bind, port: 81 }
  const idle = { ...failed(bind), isIdle: true } as BindState
  const waiting = { ...listener().counters, held: 3 }
  const leaving = endpoint('10.0.0.3', { ready: false, terminating: true })
  const closed = (at: Bind): BindState => ({
    bind: at,
    state: 'closed',
    reason: 'it leads back here',
  })
  const down =
    (...keys: readonly string[]): StatusInput['checksOf'] =>
    () =>
    key =>
      keys.includes(key) ? checkedDown : { ...checkedDown, up: true, reason: '' }
  const cases: readonly [
    Partial<ServicePort>,
    Some,
    state: string,
    reason: string,
    usable: number,
  ][] = [
    [served, {}, 'ok', '', 2],
    [{}, {}, 'no endpoints', '', 0],
    [
      { endpoints: [endpoint('10.0.0.1', notReady)] },
      {},
      'down',
      `${first} not ready`,
      0,
    ],
    [
      served,
      { listeners: [listener({ binds: [failed(bind)] })] },
      'failing',
      '127.96.0.10:80 can’t be listened on: EACCES',
      2,
    ],
    [
      served,
      { listeners: [listener({ binds: [binding(bind)] })] },
      'failing',
      'it is not listened on yet',
      2,
    ],
    [
      served,
      {
        listeners: [
          listener({ binds: [binding(bind), { bind: other, state: 'listening' }] }),
        ],
      },
      'degraded',
      'it is not listened on yet',
      2,
    ],
    [served, { placements: none }, 'failing', '127.96.0.10:80 is not served: x', 2],
    [
      served,
      { placements: [placement({ vips: [...noneVips, ...placement().vips] })] },
      'degraded',
      '127.96.0.10:80 is not served: x',
      2,
    ],
    [{}, { placements: none }, 'no endpoints', '', 0],
    [
      served,
      { listeners: [listener({ binds: [closed(bind)] })] },
      'failing',
      'clients are refused: it leads back here',
      2,
    ],
    [{}, { listeners: [listener({ binds: [closed(bind)] })] }, 'no endpoints', '', 0],
    [served, { listeners: [listener({ binds: [idle] })] }, 'ok', '', 2],
    [served, { orders: [pause] }, 'paused', 'by an operator: new clients wait', 2],
    [{ ...served, protocol: 'UDP' }, { orders: [pause] }, 'ok', '', 2],
    [served, { orders: [drainOf(first)] }, 'draining', `${first} drained by order`, 1],
    [
      served,
      { orders: [drainOf(first), drainOf(second)] },
      'down',
      `${first} drained by order, ${second} drained by order`,
      0,
    ],
    [
      served,
      { listeners: resting(first) },
      'degraded',
      `${first} cooling down after a failure`,
      2,
    ],
    [
      served,
      { listeners: resting(first, second) },
      'failing',
      `${first} cooling down after a failure, ${second} cooling down after a failure`,
      2,
    ],
    [
      served,
      { listeners: [listener({ counters: waiting })] },
      'failing',
      '3 clients without an endpoint',
      2,
    ],
    [
      served,
      { listeners: [listener({ failing: true })] },
      'failing',
      'the last client got no endpoint',
      2,
    ],
    [
      served,
      { listeners: [listener({ failing: true })], orders: [pause] },
      'paused',
      'by an operator: new clients wait',
      2,
    ],
    [
      { ...with2, internal: forward(one), reachable: [one] },
      { checksOf: down(second) },
      'degraded',
      `${second} down refused`,
      1,
    ],
    [
      served,
      { checksOf: down(first, second) },
      'down',
      `${first} down refused, tried all the same, ${second} down refused, tried all the same`,
      0,
    ],
    [
      { ...with2, internal: forward(one), reachable: [one] },
      {},
      'ok',
      '1 unused by policy or hints',
      1,
    ],
    [{ ...with2, internal: drop }, {}, 'no endpoints', '2 unused by policy or hints', 0],
    [
      { ...served, internal: drop, external: forward(one, two) },
      {},
      'degraded',
      'clients on this node are not served: no local endpoints (internalTrafficPolicy: Local)',
      2,
    ],
    [
      { ...served, endpoints: [one, two, leaving], internal: forward(one, two) },
      {},
      'ok',
      '',
      2,
    ],
    // The kernel modes count nothing.
    [served, { listeners: [] }, 'ok', '', 2],
  ]
  for (const [port, some, state, reason, usable] of cases) {
    const what = input({ snapshots: [snapshot(servicePort(port))], ...some })
    const [found] = buildStatusDocument(what).servicePorts
    const endpointCounts = { usable, all: port.endpoints?.length ?? 0 }
    t.match(found, { state, reason, endpointCounts }, `${state}: ${reason}`)
    const [row] = Array.from(portViews(what), rowOf)
    t.match(row, { state, reason, endpointCounts, addresses: '127.96.0.10:80' })
  }
})

t.test('what is not counted is null, and not 0', t => {
  const [found] = build({
    listeners: [],
    snapshots: [snapshot(servicePort({ endpoints: [endpoint('10.0.0.1')] }))],
  }).servicePorts
  const { active, accepted, failed, retries, held, queued, bytesToClient } = found ?? {}
  t.strictSame(
    [active, accepted, failed, retries, held, queued, bytesToClient],
    [null, null, null, null, null, null, null],
  )
  t.match(found?.endpoints, [{ active: null, failures: null }])
  t.end()
})

const all = { service: undefined, fields: undefined, joinsAlike: false }

const written = async (...given: Parameters<typeof writeStatus>): Promise<unknown> =>
  JSON.parse(Buffer.concat(await writeStatus(...given)).toString())

t.test('what endpoints have in common is written once, and read of each', async t => {
  const spec = fc.record({
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    weight: fc.option(fc.nat(3), { nil: undefined }),
  })
  const [parts, who] = [fc.array(fc.boolean(), { minLength: 8 }), fc.nat(9)]
  const made = fc.array(spec, { maxLength: 8 })
  const property = fc.asyncProperty(
    made,
    parts,
    parts,
    who,
    who,
    who,
    async (specs, internal, external, drained, counted, checked) => {
      const address = (i: number): string =>
        i === 3 ? 'unix:/run/"a\\b".sock' : `10.0.0.${i}`
      const endpoints = specs.map((one, i) => endpoint(address(i), one))
      const key = (i: number): string => bindText(endpoint(address(i)))
      const some = (of: readonly boolean[]): Target =>
        forward(...endpoints.filter((_, i) => of[i]))
      const port = servicePort({
        vips: [vip, { kind: 'ExternalIP', address: '192.0.2.1', port: 80 }],
        endpoints,
        internal: some(internal),
        external: some(external),
        reachable: endpoints.filter((_, i) => internal[i] || external[i]),
      })
      const stats = {
        key: key(counted),
        active: 1,
        failures: 2,
        coolingDown: true,
        rttMs: 3,
      }
      const down = { ...checkedDown, isKnown: false, forMs: 0, host: '' }
      const what = input({
        snapshots: [snapshot(port)],
        listeners: [listener({ endpoints: [stats] })],
        orders: drained < 5 ? [drainOf(key(drained))] : [],
        checksOf: () => one => (one === key(checked) ? down : undefined),
      })
      const document = buildStatusDocument(what)
      t.strictSame(await written(what, all), document)
      t.strictSame(apart(await written(what, { ...all, joinsAlike: true })), document)
      const [counts] = document.servicePorts.map(one => one.endpointCounts)
      const [found = []] = document.servicePorts.map(one => one.endpoints)
      const usable = found.filter(
        one => one.eligible && one.drained === null && one.check?.up !== false,
      )
      t.strictSame(counts, { usable: usable.length, all: endpoints.length })
    },
  )
  await fc.assert(property, { numRuns: 200 })
})

/** With endpoints that were told together each for itself. */
const apart = (document: unknown): unknown => {
  const { servicePorts, ...head } = document as ReturnType<typeof build>
  for (const port of servicePorts)
    Object.assign(port, { endpoints: port.endpoints.flatMap(eachOf) })
  return { ...head, servicePorts }
}

const eachOf = ({ alike = [], ...one }: EndpointRun) =>
  [one.endpoint, ...alike].map(name => Object.assign({}, one, { endpoint: name }))

const drainOf = (key: string): StatusInput['orders'][number] => ({
  kind: 'drain',
  name: 'default/web:http',
  endpoint: key,
  since: 1000,
  until: undefined,
  close: 'none',
})

t.test('of each ServicePort there is what is asked for, and no more', async t => {
  const ports = ['web', 'db'].map(name =>
    servicePort({
      key: `default/${name}/TCP`,
      name: `default/${name}`,
      endpoints: [endpoint('10.0.0.1'), endpoint('10.0.0.2', notReady)],
    }),
  )
  const what = input({ snapshots: [snapshot(...ports)] })
  const { servicePorts, ...head } = buildStatusDocument(what)
  t.strictSame(await written(what, { ...all, fields: ['vips', 'endpointCounts'] }), {
    ...head,
    servicePorts: servicePorts.map(({ vips, endpointCounts }) => ({
      vips,
      endpointCounts,
    })),
  })
  t.strictSame(
    await written(what, {
      ...all,
      service: 'default/db',
      fields: ['endpoints', 'no such'],
    }),
    { ...head, servicePorts: [{ endpoints: servicePorts[1]?.endpoints }] },
  )
})

t.test('what is asked for a thousand times is answered once', async t => {
  const port = servicePort({ endpoints: [endpoint('10.0.0.1')] })
  const what = input({ snapshots: [snapshot(port)] })
  const answer = async (fields: readonly string[]): Promise<string> =>
    Buffer.concat(await writeStatus(what, { ...all, fields })).toString()
  const often = Array.from({ length: 1000 }, () => 'endpoints')
  t.equal(await answer(often), await answer(['endpoints']))
})

t.test('the pages are the document, and others get their turn in between', async t => {
  const many = Array.from({ length: 3000 }, (_, i) =>
    servicePort({ key: `default/s${i}/TCP`, name: `default/s${i}` }),
  )
  for (const servicePorts of [[], many.slice(0, 1), many]) {
    const what = input({ snapshots: [snapshot(...servicePorts)] })
    let turns = 0
    const turn = () => {
      turns += 1
      next = setImmediate(turn)
    }
    let next = setImmediate(turn)
    const pages = await writeStatus(what, all)
    clearImmediate(next)
    t.strictSame(JSON.parse(Buffer.concat(pages).toString()), buildStatusDocument(what))
    if (servicePorts.length === 3000) t.ok(turns >= 3, `${turns} turns`)
  }
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

t.test('a VIP that the kernel leads to endpoints is listened on nowhere', async t => {
  const of = (reason: string) =>
    build({
      listeners: [],
      placements: [placement({ vips: [{ vip, capture: 'kernel', binds: [], reason }] })],
    }).servicePorts[0]?.vips[0]
  t.match(of(''), { capture: 'kernel', listen: '', state: 'forwarding', reason: '' })
  t.match(of('no endpoints'), { state: 'refusing', reason: 'no endpoints' })
})

t.test('node ports that the relay serves on loopback are among its VIPs', async t => {
  const nodePort = { kind: 'NodePort', address: '127.0.0.1', port: 30080 } as const
  const proxyPort = { address: '169.254.77.88', port: 41000 }
  const plain = servicePort()
  const onLoopback = `IPv4 ${loopbackKey(plain)}`
  const endpoints = [
    { key: '10.0.0.1:8080', active: 1, failures: 2, coolingDown: false },
  ] as const
  const document = (...listeners: readonly ListenerStats[]) =>
    build({
      listeners,
      placements: [
        placement({ vips: [{ vip, capture: 'kernel', binds: [], reason: '' }] }),
        {
          servicePort: { ...plain, key: loopbackKey(plain), vips: [nodePort] },
          listenerId: onLoopback,
          vips: [{ vip: nodePort, capture: 'nftables', binds: [proxyPort], reason: '' }],
        },
      ],
      snapshots: [
        snapshot(
          servicePort({
            vips: [vip, nodePort],
            endpoints: [{ ...endpoint('10.0.0.1'), port: 8080 }],
          }),
        ),
      ],
    }).servicePorts[0]
  const two = listener({
    id: onLoopback,
    binds: [{ bind: proxyPort, state: 'listening' }],
    endpoints,
    lastError: '',
  })
  t.match(document(two), {
    vips: [
      { vip: '127.96.0.10:80', capture: 'kernel', state: 'forwarding' },
      { kind: 'NodePort', vip: '127.0.0.1:30080', state: 'listening' },
    ],
    // Beside what the kernel carries, and does not count, it would look like all.
    accepted: null,
    endpoints: [{ active: null, failures: null }],
  })
  t.match(
    document(listener({ endpoints }), two),
    {
      accepted: 20,
      lastError: 'ECONNREFUSED',
      endpoints: [{ active: 2, failures: 4 }],
    },
    'of the relay all that it carries for this ServicePort is counted',
  )
})

t.test('the mode that runs is told with what was asked for', async t => {
  const why = {
    name: 'iptables',
    detail: 'iptables 1.8.9',
    passedOver: [{ name: 'ipvs', detail: 'no ip_vs' }],
  } as const
  const mode = { ...why, mode: 'ipvs', by: '--proxy-mode' } as const
  const { mode: name, modeChoice, capture, relay } = build({ mode })
  const choice = { ...why, askedBy: '--proxy-mode' }
  t.strictSame([name, modeChoice, capture, relay], ['iptables', choice, null, null])
})

t.test('capture and relay are shown with why they were taken', async t => {
  const passedOver = [{ name: 'nftables', usable: false, detail: 'no nft' }] as const
  const own = { uid: 65_532, capabilities: 1n << 10n, noNewPrivileges: true }
  const linux = { name: 'linux', detail: 'works', workers: 2, passedOver: [] } as const
  const { capture, relay } = build({
    capture: { name: 'iptables', detail: 'iptables 1.8.9', passedOver },
    relay: { ...linux, ownProcess: { privileges: own, excess: 'no setpriv' } },
  })
  t.strictSame(capture, {
    name: 'iptables',
    detail: 'iptables 1.8.9',
    passedOver: [{ name: 'nftables', detail: 'no nft' }],
  })
  const privileges = 'user 65532 with CAP_NET_BIND_SERVICE only'
  const ownProcess = { privileges, excess: 'no setpriv' }
  t.strictSame(relay, { ...linux, ownProcess })
  t.equal(build({ relay: linux }).relay?.ownProcess, null)
})

t.test(
  'a ServicePort that is not placed yet is shown, and nothing is counted',
  async t => {
    const { servicePorts } = build({ placements: [] })
    t.match(servicePorts, [
      {
        accepted: null,
        lastError: '',
        vips: [{ state: 'not captured', reason: 'not applied yet' }],
      },
    ])
  },
)

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
