import t from 'tap'
import * as objects from '../support/objects.ts'
import { boundProxyAddress, ListenCapture } from '../../src/capture/listen.ts'
import { LocalAddresses } from '../../src/capture/local-addresses.ts'
import { ProxyPorts } from '../../src/capture/proxy-ports.ts'
import { bindsOf } from '../../src/mode/loops.ts'
import { UserspaceMode } from '../../src/mode/userspace.ts'
import { Registry } from '../../src/model/registry.ts'
import type {
  Change,
  EndpointSlice,
  EndpointSpec,
  Service,
} from '../../src/model/service.ts'
import {
  type QueryResult,
  emptyResults,
  type QueryName,
} from '../../src/relay/queries.ts'
import type { Bind, Relay, RelayListener } from '../../src/relay/relay.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { frontOf } from '../support/relay-fixture.ts'
import { gone, portSpec, put } from '../support/objects.ts'

const service = (over: Partial<Service> = {}): Change =>
  put(objects.service('web', { clusterIPs: ['127.96.0.1'], ...over }))

type Condition = 'ready' | 'unready' | 'terminating' | 'gone'

const endpointOf = (address: string, condition: Condition): EndpointSpec =>
  objects.endpoint(address, {
    ready: condition === 'ready',
    serving: condition === 'ready' || condition === 'terminating',
    terminating: condition === 'terminating' || condition === 'gone',
  })

const slice = (
  endpoints: Record<string, Condition>,
  over: Partial<EndpointSlice> = {},
): Change =>
  put(
    objects.slice(
      Object.entries(endpoints).map(([ip, condition]) => endpointOf(ip, condition)),
      { name: `web-${over.family ?? 'IPv4'}`, ...over },
    ),
  )

/** Writes down what it is told to listen for. */
class RecordingRelay implements Relay {
  readonly applied: (readonly RelayListener[])[] = []
  failure: Error | undefined

  async apply(listeners: readonly RelayListener[]): Promise<void> {
    if (this.failure !== undefined) throw this.failure
    this.applied.push(listeners)
  }

  setNodeClients(): void {
    // No client comes.
  }

  stats() {
    return { listeners: [], fds: { used: 0, limit: 0 }, acceptPaused: false }
  }

  async query<Q extends QueryName>(question: Q): Promise<QueryResult<Q>> {
    return emptyResults[question]
  }

  async drain() {
    return { reset: 0 }
  }
}

/** Nothing is ordered. */
const orders = { apply: (listeners: readonly RelayListener[]) => listeners }

/** Who is on the node is not known here. */
const nodeClients = { poll: () => {}, stop: () => {} }

/** The mode on a host that owns 127.0.0.0/8, fd00::/16 and the wildcards. */
const fixture = (drained: readonly string[] = []) => {
  const registry = new Registry()
  const relay = new RecordingRelay()
  const own = /^(127\.|fd00:|0\.0\.0\.0$|::$)/
  const range = { first: 40_000, last: 40_009 }
  const capture = new ListenCapture({
    mode: 'listen',
    proxyAddress: boundProxyAddress('::'),
    proxyPortRange: range,
    localAddresses: new LocalAddresses(new FakeClock(), async one => own.test(one)),
    proxyPorts: new ProxyPorts(
      range,
      () => 0,
      async (_protocol, _addresses, one) => one,
    ),
    ofInterfaces: family => (family === 'IPv4' ? ['127.0.0.1', '192.0.2.1'] : ['::1']),
  })
  const isLocal = (address: string): boolean => address.startsWith('127.')
  const draining = {
    apply: (listeners: readonly RelayListener[]) =>
      listeners.map(one => ({
        ...one,
        drained: drained.map(key => ({ key, close: 'none' as const })),
      })),
  }
  const ordered = drained.length === 0 ? orders : draining
  const mode = new UserspaceMode({
    capture,
    relay,
    isLocal,
    nodeClients,
    orders: ordered,
  })
  const sync = async (...changes: Change[]): Promise<readonly RelayListener[]> => {
    registry.apply(changes)
    await mode.sync(ipFamilies.map(family => registry.snapshot(family)))
    return relay.applied.at(-1) ?? []
  }
  return { mode, relay, sync }
}

const at = (port: number, ...addresses: string[]) =>
  addresses.map(address => ({ address, port }))

const keys = (listener: RelayListener | undefined): string[] | undefined =>
  listener?.endpoints.map(({ key }) => key)

t.test('a Service and its slice become one listener, complete', async t => {
  const { sync } = fixture()
  const ready = { '10.1.0.2': 'ready', '10.1.0.1': 'ready' } as const
  t.strictSame(await sync(service({ affinityMs: 5000 }), slice(ready)), [
    {
      id: 'IPv4 default/web:http/TCP',
      name: 'default/web:http',
      protocol: 'TCP',
      fronts: [frontOf(at(80, '127.96.0.1'))],
      endpoints: [
        { key: '10.1.0.1:8080', address: '10.1.0.1', port: 8080 },
        { key: '10.1.0.2:8080', address: '10.1.0.2', port: 8080 },
      ],
      affinityMs: 5000,
      steered: [],
    },
  ])
})

t.test('where Services are listened for', async t => {
  const both = { clusterIPs: ['127.96.0.1', 'fd00::1'] }
  const cases: [string, Partial<Service>, ...Bind[][]][] = [
    ['a VIP of this host', {}, at(80, '127.96.0.1')],
    [
      'one elsewhere has a proxy port',
      { clusterIPs: ['10.0.0.1'] },
      at(40_000, '0.0.0.0'),
    ],
    [
      'all VIPs of this host, in one listener',
      { externalIPs: ['127.1.1.1'], loadBalancerIPs: ['127.2.2.2'] },
      [...at(80, '127.96.0.1', '127.1.1.1', '127.2.2.2')],
    ],
    [
      'two VIPs elsewhere share one bind',
      { clusterIPs: ['10.0.0.1'], externalIPs: ['198.51.100.1'] },
      at(40_000, '0.0.0.0'),
    ],
    [
      'one here and one elsewhere',
      { externalIPs: ['198.51.100.1'] },
      [...at(80, '127.96.0.1'), ...at(40_000, '0.0.0.0')],
    ],
    [
      'a node port beside the ClusterIP',
      { ports: [portSpec({ nodePort: 30080 })] },
      [...at(80, '127.96.0.1'), ...at(30080, '0.0.0.0')],
    ],
    [
      'a node port for UDP on each address',
      { ports: [portSpec({ nodePort: 30053, protocol: 'UDP', port: 53 })] },
      [...at(53, '127.96.0.1'), ...at(30053, '127.0.0.1', '192.0.2.1')],
    ],
    ['both families', both, at(80, '127.96.0.1'), at(80, 'fd00::1')],
    [
      'node ports in both families',
      { ...both, ports: [portSpec({ nodePort: 30080 })] },
      [...at(80, '127.96.0.1'), ...at(30080, '0.0.0.0')],
      [...at(80, 'fd00::1'), ...at(30080, '::')],
    ],
    [
      'each port for itself, proxy ports too',
      {
        clusterIPs: ['10.0.0.1'],
        ports: [portSpec(), portSpec({ name: 'dns', port: 53, protocol: 'UDP' })],
      },
      at(40_000, '127.0.0.1', '192.0.2.1'),
      at(40_000, '0.0.0.0'),
    ],
    ['no VIP, no listener', { clusterIPs: [] }],
  ]
  for (const [name, spec, ...binds] of cases) {
    t.test(name, async t => {
      const { sync } = fixture()
      const listeners = await sync(service(spec))
      t.strictSame(
        listeners.map(listener => bindsOf(listener)),
        binds,
      )
      t.equal(new Set(listeners.map(({ id }) => id)).size, binds.length)
    })
  }
})

t.test('which endpoints get new connections', async t => {
  const cases: [string, Record<string, Condition>, string[]][] = [
    [
      'those that are ready',
      { '10.1.0.1': 'ready', '10.1.0.2': 'unready' },
      ['10.1.0.1'],
    ],
    [
      'not the terminating ones while one is ready',
      { '10.1.0.1': 'terminating', '10.1.0.2': 'ready' },
      ['10.1.0.2'],
    ],
    [
      'the terminating ones that still serve when none is ready',
      { '10.1.0.1': 'terminating', '10.1.0.2': 'unready', '10.1.0.3': 'gone' },
      ['10.1.0.1'],
    ],
    ['none when all are gone', { '10.1.0.1': 'gone', '10.1.0.2': 'unready' }, []],
    ['none when there are none', {}, []],
  ]
  t.test('UDP flows stay where new ones do not come, while it serves', async t => {
    const { sync } = fixture()
    const ports = [{ ...portSpec({ port: 53 }), protocol: 'UDP' as const }]
    const sliceOf = (condition: Condition): Change =>
      slice(
        { '10.1.0.1': condition, '10.1.0.2': 'ready' },
        { ports: [{ name: 'http', protocol: 'UDP', port: 8080 }] },
      )
    const [before] = await sync(service({ ports }), sliceOf('ready'))
    t.equal(before?.staying, undefined)
    const [terminating] = await sync(sliceOf('terminating'))
    t.strictSame(keys(terminating), ['10.1.0.2:8080'])
    t.strictSame(terminating?.staying, ['10.1.0.1:8080'])
    const [ended] = await sync(sliceOf('gone'))
    t.equal(ended?.staying, undefined)
  })

  t.test('SCTP is told of, and the ports beside it are served', async t => {
    const { sync, mode } = fixture()
    const ports = [portSpec(), portSpec({ name: 'x', port: 3868, protocol: 'SCTP' })]
    const both = { clusterIPs: ['127.96.0.1'], ports }
    const listeners = await sync(service(both), slice({ '10.1.0.1': 'ready' }))
    t.match(listeners, [{ name: 'default/web:http' }])
    t.equal(listeners.length, 1)
    t.match(mode.problems, [
      {
        object: 'Service default/web',
        field: 'spec.ports',
        message:
          /^SCTP port 3868 \(IPv4\) is not served: .*nftables, iptables and ipvs mode serve it/,
      },
    ])
    t.match(mode.placements[1], {
      servicePort: { protocol: 'SCTP' },
      vips: [{ capture: 'not captured', reason: /no SCTP/ }],
    })
    t.equal((await sync(service({ clusterIPs: ['127.96.0.1'] }))).length, 1)
    t.strictSame(mode.problems, [])
    t.equal(mode.placements.length, 1)
  })

  for (const [name, endpoints, expected] of cases) {
    t.test(name, async t => {
      const { sync } = fixture()
      const [listener] = await sync(service(), slice(endpoints))
      t.strictSame(
        keys(listener),
        expected.map(ip => `${ip}:8080`),
      )
      const binds = listener && bindsOf(listener)
      t.strictSame(binds, at(80, '127.96.0.1'), 'the binds do not depend on it')
    })
  }

  t.test('those of their own family, IPv6 in brackets', async t => {
    const { sync } = fixture()
    const six = slice({ 'fd00:1::1': 'ready' }, { family: 'IPv6' })
    const clusterIPs = ['127.96.0.1', 'fd00::1']
    const [first, second] = await sync(
      service({ clusterIPs }),
      slice({ '10.1.0.1': 'ready' }),
      six,
    )
    t.strictSame(keys(first), ['10.1.0.1:8080'])
    t.strictSame(second?.endpoints, [
      { key: '[fd00:1::1]:8080', address: 'fd00:1::1', port: 8080 },
    ])
  })

  t.test('a Service without a slice has a listener that refuses', async t => {
    const { sync } = fixture()
    const [listener] = await sync(service())
    t.strictSame(listener?.endpoints, [])
  })
})

t.test('changes', async t => {
  const ready = slice({ '10.1.0.1': 'ready', '10.1.0.2': 'ready' })
  const elsewhere = { clusterIPs: ['10.0.0.1'], externalIPs: ['127.1.1.1'] }

  t.test('none: a further sync gives equal listeners', async t => {
    const { sync } = fixture()
    const first = await sync(service(elsewhere), ready)
    t.strictSame(await sync(), first)
    t.strictSame(await sync(service(elsewhere), ready), first)
    t.equal(first.length, 1)
  })

  t.test('of endpoints leave the identity and the binds of a listener', async t => {
    const { sync } = fixture()
    const [before] = await sync(service(elsewhere), ready)
    const [after] = await sync(slice({ '10.1.0.3': 'ready' }))
    t.strictSame({ ...after, endpoints: [] }, { ...before, endpoints: [] })
    t.strictSame(keys(after), ['10.1.0.3:8080'])
  })

  t.test('of another Service leave a listener as it was', async t => {
    const { sync } = fixture()
    const [before] = await sync(service(elsewhere), ready)
    const other = { name: 'a', clusterIPs: ['10.0.0.2'], createdAt: 1 }
    const after = await sync(service(other))
    t.strictSame(
      after.find(({ id }) => id === before?.id),
      before,
    )
    t.equal(after.length, 2)
  })

  t.test('of a VIP move the binds and nothing else', async t => {
    const { sync } = fixture()
    const [before] = await sync(service(), ready)
    const [after] = await sync(service({ clusterIPs: ['127.96.0.9'] }))
    t.strictSame(after, { ...before, fronts: [frontOf(at(80, '127.96.0.9'))] })
  })

  t.test('a Service that went and came back finds endpoints and proxy port', async t => {
    const { sync } = fixture()
    const before = await sync(service(elsewhere), ready)
    t.strictSame(await sync(gone('Service', 'web')), [])
    await sync(service({ name: 'other', clusterIPs: ['10.0.0.2'] }))
    const after = await sync(gone('Service', 'other'), service(elsewhere))
    t.strictSame(after, before)
  })
})

t.test('what cannot be captured keeps its listener without a bind', async t => {
  const relay = new RecordingRelay()
  const capture = new ListenCapture({
    mode: 'local',
    proxyAddress: boundProxyAddress('127.0.0.1'),
    proxyPortRange: undefined,
    localAddresses: new LocalAddresses(new FakeClock(), async () => false),
    proxyPorts: new ProxyPorts(undefined, Math.random),
  })
  const registry = new Registry()
  registry.apply([service()])
  const isLocal = (address: string): boolean => address.startsWith('127.')
  const mode = new UserspaceMode({ capture, relay, isLocal, nodeClients, orders })
  await mode.sync([registry.snapshot('IPv4')])
  t.strictSame(relay.applied[0]?.[0]?.fronts, [])
  t.match(mode.placements, [{ vips: [{ capture: 'not captured' }] }])
})

t.test('placements tell of each VIP, also of those that share a bind', async t => {
  const { mode, sync } = fixture()
  t.strictSame(mode.placements, [], 'before the first sync of none')
  await sync(service({ clusterIPs: ['10.0.0.1'], externalIPs: ['198.51.100.1'] }))
  t.match(mode.placements, [
    {
      listenerId: 'IPv4 default/web:http/TCP',
      vips: [
        { vip: { address: '10.0.0.1' }, capture: 'none', binds: at(40_000, '0.0.0.0') },
        { vip: { address: '198.51.100.1' }, binds: at(40_000, '0.0.0.0') },
      ],
    },
  ])
})

t.test('rules refuse whom only endpoints could serve that lead back', async t => {
  const { mode, sync } = fixture()
  const verdicts = (): unknown =>
    mode.led.map(({ servicePort: { internal, external } }) => [
      internal.verdict,
      external.verdict,
    ])
  const ports = [{ name: 'http', protocol: 'TCP' as const, port: 80 }]
  const [listener] = await sync(service(), slice({ '127.96.0.1': 'ready' }, { ports }))
  t.strictSame(keys(listener), [])
  t.strictSame(verdicts(), [['reject', 'reject']])
  t.match(mode.problems, [{ message: /^endpoint 127\.96\.0\.1:80 leads back/ }])
  t.match(mode.placements, [{ servicePort: { internal: { verdict: 'forward' } } }])
  await sync(slice({ '127.96.0.1': 'ready', '10.1.0.1': 'ready' }, { ports }))
  t.strictSame(verdicts(), [['forward', 'forward']])
  await sync(slice({ '10.1.0.1': 'ready' }))
  t.equal(mode.led, mode.placements)
})

t.test('rules refuse where all endpoints are drained, unless clients wait', async t => {
  const { mode, sync } = fixture(['10.1.0.1:8080'])
  const verdict = () => mode.led[0]?.servicePort.internal.verdict
  await sync(service(), slice({ '10.1.0.1': 'ready' }))
  t.equal(verdict(), 'reject')
  await sync(slice({ '10.1.0.1': 'ready', '10.1.0.2': 'ready' }))
  t.equal(verdict(), 'forward')
  await sync(
    service({ retry: { earlyClose: false, replay: 0, holdMs: 1000 } }),
    slice({ '10.1.0.1': 'ready' }),
  )
  t.equal(verdict(), 'forward')
})

t.test('a relay that fails makes the sync fail, and the next one goes on', async t => {
  const { relay, sync } = fixture()
  relay.failure = new Error('broken')
  await t.rejects(sync(service()), { message: 'broken' })
  relay.failure = undefined
  t.equal((await sync()).length, 1)
})
