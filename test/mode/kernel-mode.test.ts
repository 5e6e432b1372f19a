import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SocketLock } from '../../src/kernel/keeper/host-lock.ts'
import type { FlowVip } from '../../src/kernel/conntrack.ts'
import { type KernelSettings, plainSettings } from '../../src/kernel/proxier.ts'
import { StoppableTools } from '../../src/kernel/run-tool.ts'
import { KernelMode, type KernelModeDeps } from '../../src/mode/kernel-mode.ts'
import { readyEndpoint } from '../../src/model/service.ts'
import type { Endpoint, ServicePort, Snapshot } from '../../src/model/snapshot.ts'
import { systemClock } from '../../src/util/clock.ts'
import type { IpFamily } from '../../src/util/ip.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { FakeProxier } from '../support/fake-proxier.ts'
import { clusterIp, servicePort } from '../support/service-ports.ts'
import { until } from '../support/until.ts'

const linuxOnly = { skip: process.platform !== 'linux' }

const snapshot = (family: IpFamily, ...ports: ServicePort[]): Snapshot => ({
  family,
  servicePorts: new Map(ports.map(each => [each.key, each])),
  healthChecks: new Map(),
})

const settings: KernelSettings = { ...plainSettings, localhostNodePorts: true }

/** A mode over fake proxiers, and what it has told. Locks are real. */
const setUp = (t: Test, over: Partial<KernelModeDeps> = {}, lockName = freshLock()) => {
  const v4 = new FakeProxier()
  const told: string[] = []
  const forgotten: (readonly FlowVip[])[] = []
  const guarded: boolean[] = []
  const lock = new SocketLock({
    clock: systemClock,
    self: 'a test',
    name: lockName,
    waiting: holder => told.push(`waits for ${holder}`),
  })
  const mode = new KernelMode({
    name: 'iptables',
    clock: new FakeClock(),
    proxiers: new Map([['IPv4', v4]]),
    unusable: new Map([['IPv6', 'no IPv6 here']]),
    probe: async () => ({ usable: false, detail: 'no IPv6 here' }),
    lock,
    tools: new StoppableTools(),
    settings: () => settings,
    prepare: async () => void told.push('prepare'),
    guard: async stands => void guarded.push(stands),
    refused: () => [],
    removeOthers: async () => {
      told.push('remove others')
      return []
    },
    conntrack: { forgetFlows: async vips => forgotten.push(vips), problem: '' },
    left: async () => [],
    resync: () => told.push('resync'),
    observers: [
      {
        synced: (family, { work }) => told.push(`${family} ${work}`),
        repaired: (family, what, error) =>
          told.push(`repaired ${family}: ${what} ${error}`.trim()),
      },
    ],
    ...over,
  })
  t.teardown(() => mode.close())
  return { mode, v4, told, forgotten, guarded }
}

const lookedUp = (): ServicePort =>
  servicePort('dns', {
    protocol: 'UDP',
    endpoints: [{ ...readyEndpoint('10.1.0.1'), port: 53 }],
  })

const freshLock = (): string => `usher-test-${randomBytes(6).toString('hex')}`

t.test('a kernel mode syncs its families, and then removes what others left', async t => {
  const { mode, v4, told } = setUp(t)
  const web = servicePort('web', {
    internal: { verdict: 'forward', endpoints: [] },
  })
  await mode.sync([snapshot('IPv4', web), snapshot('IPv6')])
  await mode.sync([snapshot('IPv4', web), snapshot('IPv6')])
  t.strictSame(told, ['prepare', 'IPv4 full', 'remove others', 'prepare', 'IPv4 partial'])
  t.strictSame(v4.calls, ['sync', 'watch', 'sync'])
  t.strictSame(v4.settings[0], settings)
  t.strictSame(mode.problems, [], 'of a family without Services nobody misses anything')
  const [placement] = mode.placements
  t.match(placement?.vips, [{ capture: 'kernel', binds: [], reason: '' }])
  await mode.sync([snapshot('IPv4', web), snapshot('IPv6')])
  t.equal(mode.placements[0], placement, 'what did not change is the same object')
})

t.test('a family without Services is a problem, and does not fail the other', async t => {
  const v6 = new FakeProxier()
  const v4 = new FakeProxier()
  const { mode } = setUp(t, {
    proxiers: new Map<IpFamily, FakeProxier>([
      ['IPv4', v4],
      ['IPv6', v6],
    ]),
    unusable: new Map(),
  })
  const web = servicePort('web')
  v6.broken = 'no rules here'
  await mode.sync([snapshot('IPv4', web), snapshot('IPv6')])
  t.match(mode.problems, [{ field: 'IPv6', message: 'no rules here' }])
  t.equal(mode.placements.length, 1)
  const six = servicePort('six', { family: 'IPv6' })
  await t.rejects(mode.sync([snapshot('IPv4', web), snapshot('IPv6', six)]), /no rules/)
  await t.rejects(mode.sync([snapshot('IPv4', web), snapshot('IPv6')]), /no rules/)
  v6.broken = ''
  await mode.sync([snapshot('IPv4', web), snapshot('IPv6')])
  t.strictSame(mode.problems, [])
})

t.test(
  'a Service that asks for what only a relay can do is served, and told so',
  async t => {
    const { mode } = setUp(t)
    const retry = { earlyClose: true, replay: 0 }
    const http = servicePort('web', { retry })
    const https = servicePort('web', { retry, key: 'default/web:s/TCP', portName: 's' })
    const checked = servicePort('checked', { checks: { onDown: 'keep' } })
    const relayed = servicePort('relayed', { relayed: true })
    const plain = servicePort('plain')
    await mode.sync([snapshot('IPv4', http, https, checked, relayed, plain)])
    t.equal(mode.placements.length, 5)
    t.match(mode.problems, [
      {
        object: 'Service default/web',
        field: 'metadata.annotations',
        message: /userspace and nftables mode has \(--proxy-mode\); iptables mode serves/,
      },
      { object: 'Service default/checked', message: /checks/ },
      { object: 'Service default/relayed', message: /relay/ },
    ])
    t.equal(mode.problems.length, 3)
    await mode.sync([snapshot('IPv4', servicePort('web'), servicePort('plain'))])
    t.strictSame(mode.problems, [])
  },
)

t.test('what a policy leaves of a VIP is told with its placement', async t => {
  const { mode } = setUp(t)
  const drop = { verdict: 'drop', endpoints: [] } as const
  const forward = { verdict: 'forward', endpoints: [] } as const
  const vips = [
    { kind: 'ClusterIP', address: '10.0.0.1', port: 80 },
    { kind: 'ExternalIP', address: '192.0.2.1', port: 80 },
  ] as const
  await mode.sync([
    snapshot(
      'IPv4',
      servicePort('none', { vips }),
      servicePort('local', { vips, internal: drop, external: drop }),
      servicePort('node', {
        vips,
        internal: forward,
        external: drop,
        externalFromNode: forward,
      }),
    ),
  ])
  const reasons = mode.placements.map(({ vips: all }) => all.map(({ reason }) => reason))
  t.strictSame(reasons, [
    ['no endpoints', 'no endpoints'],
    [
      'no local endpoints (internalTrafficPolicy: Local)',
      'no local endpoints (externalTrafficPolicy: Local)',
    ],
    ['', ''],
  ])
})

t.test(
  'Services of a family in which it does not work are problems, with the reason',
  async t => {
    const { mode } = setUp(t)
    const vips = [{ kind: 'ClusterIP', address: 'fd00::1', port: 80 }] as const
    const six = servicePort('six', { family: 'IPv6', vips })
    await mode.sync([snapshot('IPv4', servicePort('web')), snapshot('IPv6', six)])
    const reason = 'mode iptables does not work for IPv6: no IPv6 here'
    t.strictSame(mode.problems, [
      { object: 'mode iptables', field: 'IPv6', message: reason },
    ])
    t.match(mode.placements, [
      { servicePort: { name: 'default/web' } },
      { servicePort: six, vips: [{ capture: 'not captured', reason }] },
    ])
  },
)

t.test('a family that fails does not keep the other from its sync', async t => {
  const six = new FakeProxier()
  const four = new FakeProxier()
  const both = new Map<IpFamily, FakeProxier>([
    ['IPv4', four],
    ['IPv6', six],
  ])
  const { mode, told } = setUp(t, { proxiers: both, unusable: new Map() })
  four.broken = 'iptables-restore: no'
  const all = [snapshot('IPv4', servicePort('web')), snapshot('IPv6')]
  await t.rejects(mode.sync(all), /iptables-restore: no/)
  t.strictSame(told, ['prepare', 'IPv6 full'], 'nothing is removed yet')
  t.match(mode.problems, [{ field: 'IPv4', message: 'iptables-restore: no' }])
  four.broken = ''
  await mode.sync(all)
  t.strictSame(mode.problems, [])
  t.equal(told.at(-1), 'remove others')
})

t.test('damage is forgotten, told once, and asks for a sync', async t => {
  const { mode, v4, told, forgotten } = setUp(t)
  const dns = lookedUp()
  await mode.sync([snapshot('IPv4', dns)])
  told.length = 0
  v4.damaged('chain KUBE-SERVICES is gone')
  v4.damaged('chain KUBE-SERVICES is gone')
  await mode.sync([snapshot('IPv4', dns)])
  t.strictSame(told, [
    'resync',
    'resync',
    'prepare',
    'IPv4 full',
    'repaired IPv4: chain KUBE-SERVICES is gone',
  ])
  t.strictSame(v4.calls, ['sync', 'watch', 'forget', 'forget', 'sync'])
  t.equal(forgotten.length, 2, 'flows may have gone astray meanwhile')
})

t.test('what opens the node waits for its guard, and goes with it', async t => {
  const { mode, v4, guarded } = setUp(t)
  const all = [snapshot('IPv4', servicePort('web'))]
  v4.broken = 'no'
  await t.rejects(mode.sync(all))
  t.strictSame(guarded.splice(0), [false], 'rules never stood')
  v4.broken = ''
  await mode.sync(all)
  t.strictSame(guarded.splice(0), [true])
  v4.broken = 'no'
  await t.rejects(mode.sync(all))
  t.strictSame(guarded.splice(0), [], 'those of before still stand')
  await t.rejects(mode.sync(all))
  t.strictSame(guarded.splice(0), [false], 'nobody knows what does')
  v4.broken = ''
  await mode.sync(all)
  v4.damaged('chain KUBE-FIREWALL is gone')
  v4.broken = 'no'
  await t.rejects(mode.sync(all))
  t.strictSame(guarded.splice(0), [true, false])
})

t.test('of changed UDP ServicePorts stale flows are ended', async t => {
  const { mode, forgotten } = setUp(t)
  const at = (address: string, serving = true) => ({
    address,
    port: 53,
    ready: serving,
    serving,
    terminating: !serving,
    nodeName: '',
    zone: '',
    zoneHints: [],
    nodeHints: [],
  })
  const endpoints = [at('10.1.0.1'), at('10.1.0.2', false)]
  const dns = servicePort('dns', {
    protocol: 'UDP',
    endpoints,
    vips: [
      { kind: 'ClusterIP', address: '10.0.0.53', port: 53 },
      { kind: 'NodePort', address: '0.0.0.0', port: 30_053 },
    ],
  })
  const other = servicePort('other', { protocol: 'UDP', vips: [] })
  const web = servicePort('web')
  await mode.sync([snapshot('IPv4', dns, other, web)])
  const to = [endpoints[0]]
  const udp = { family: 'IPv4', protocol: 'UDP' } as const
  const [vip, node] = [
    { ...udp, address: '10.0.0.53', port: 53 },
    { ...udp, address: undefined, port: 30_053 },
  ]
  const served = { to, clients: undefined }
  t.strictSame(forgotten, [
    [
      { ...vip, ...served },
      { ...node, ...served },
    ],
  ])
  await mode.sync([snapshot('IPv4', { ...web }, dns, other)])
  t.equal(forgotten.length, 1, 'TCP, or a place in the list, is no change')
  await mode.sync([snapshot('IPv4', { ...dns, endpoints: [] }, other)])
  t.match(
    forgotten[1],
    [
      { ...vip, to: [] },
      { ...node, to: [] },
    ],
    'nobody serves',
  )
  const [first] = dns.vips
  await mode.sync([snapshot('IPv4', { ...dns, vips: first ? [first] : [] }, other)])
  t.match(
    forgotten[2],
    [
      { ...vip, to: [] },
      { ...node, to: [] },
    ],
    'a VIP is gone',
  )
  await mode.sync([snapshot('IPv4', other)])
  t.match(forgotten[3], [{ ...vip, to: [] }])
})

t.test(
  'of TCP those that have come, of an earlier process those that are gone',
  async t => {
    const left = [
      { family: 'IPv4', protocol: 'UDP', address: '10.0.0.1', port: 53 },
      { family: 'IPv4', protocol: 'UDP', address: '10.0.0.9', port: 53 },
    ] as const
    const { mode, v4, told, forgotten } = setUp(t, { left: async () => left })
    const endpoints = [{ ...readyEndpoint('10.1.0.1'), port: 80 }]
    const web = servicePort('web', { endpoints })
    const dns = servicePort('dns', { protocol: 'UDP', vips: [clusterIp('10.0.0.1', 53)] })
    const names = (): string[] =>
      (forgotten.splice(0).at(-1) ?? []).map(
        ({ protocol, address, to }) => `${protocol} ${address} ${to?.length ?? 0}`,
      )
    v4.broken = 'not yet'
    await t.rejects(mode.sync([snapshot('IPv4', web, dns)]))
    v4.broken = ''
    await mode.sync([snapshot('IPv4', web, dns)])
    const all = ['TCP 10.0.0.1 1', 'UDP 10.0.0.1 0', 'UDP 10.0.0.9 0']
    t.strictSame(names(), all)
    t.equal(told.at(-2), 'resync', 'others may have led until now, whose rules go then')
    await mode.sync([snapshot('IPv4', web, dns)])
    t.strictSame(names(), all)
    await mode.sync([snapshot('IPv4', { ...web, endpoints: [...endpoints] }, dns)])
    t.strictSame(names(), [], 'other endpoints of TCP')
    v4.damaged('chain KUBE-SERVICES is gone')
    await mode.sync([snapshot('IPv4', web, dns)])
    t.strictSame(names(), ['TCP 10.0.0.1 1', 'UDP 10.0.0.1 0'], 'after a repair')
    await mode.sync([snapshot('IPv4')])
    t.strictSame(names(), ['UDP 10.0.0.1 0'])
  },
)

t.test('flows that could not be ended are a problem', async t => {
  const conntrack = { forgetFlows: async () => 0, problem: 'conntrack: not found' }
  const { mode } = setUp(t, { conntrack })
  await mode.sync([snapshot('IPv4')])
  const message = 'flows may go on to what is gone: conntrack: not found'
  t.strictSame(mode.problems, [{ object: 'mode iptables', field: 'UDP', message }])
})

t.test('flows stay at a lone endpoint that is not ready for a moment', async t => {
  const { mode, forgotten } = setUp(t)
  const ready = readyEndpoint('10.1.0.1')
  const dns = (over: Partial<Endpoint>): ServicePort =>
    servicePort('dns', { protocol: 'UDP', endpoints: [{ ...ready, port: 53, ...over }] })
  await mode.sync([snapshot('IPv4', dns({}))])
  const down = { ready: false, serving: false }
  const publishNotReadyAddresses = { serving: false }
  for (const over of [down, publishNotReadyAddresses]) {
    await mode.sync([snapshot('IPv4', dns(over))])
    t.match(forgotten.at(-1), [{ to: [{ address: '10.1.0.1' }] }])
  }
  await mode.sync([snapshot('IPv4', dns({ ...down, terminating: true }))])
  t.match(forgotten.at(-1), [{ to: [] }])
})

t.test('flows end where a policy silences a VIP on this node', async t => {
  const localDetector = { by: 'source', cidrs: ['10.1.0.0/24'] } as const
  const nodeAddresses = ['192.0.2.1']
  const own = { ...plainSettings, localDetector, nodeAddresses }
  const { mode, forgotten } = setUp(t, { settings: () => own })
  const dns = servicePort('dns', {
    protocol: 'UDP',
    endpoints: [{ ...readyEndpoint('10.1.0.1'), port: 53 }],
    vips: [
      { kind: 'ClusterIP', address: '10.0.0.53', port: 53 },
      { kind: 'ExternalIP', address: '203.0.113.5', port: 53 },
    ],
  })
  const [silent, to] = [{ verdict: 'drop', endpoints: [] } as const, dns.endpoints]
  await mode.sync([snapshot('IPv4', { ...dns, external: silent })])
  t.match(forgotten.at(-1), [
    { to, clients: undefined },
    { to, clients: ['10.1.0.0/24', '192.0.2.1/32'] },
  ])
  await mode.sync([snapshot('IPv4', { ...dns, internal: silent })])
  t.match(forgotten.at(-1), [{ to: [] }, { to, clients: undefined }])
})

t.test('flows wait for rules: a sync that failed ends none', async t => {
  const { mode, v4, forgotten } = setUp(t)
  const dns = lookedUp()
  v4.broken = 'no'
  await t.rejects(mode.sync([snapshot('IPv4', dns)]))
  t.strictSame(forgotten, [])
  v4.broken = ''
  await mode.sync([snapshot('IPv4', dns)])
  t.equal(forgotten.length, 1)
  await mode.sync([snapshot('IPv4', dns)])
  t.equal(forgotten.length, 1, 'nothing has changed')
  v4.broken = 'a chain is gone'
  await t.rejects(mode.sync([snapshot('IPv4', dns)]))
  v4.broken = ''
  await mode.sync([snapshot('IPv4', dns)])
  t.equal(forgotten.length, 2, 'of rules that were missing nothing was told')
})

t.test('a second kernel mode waits until the first has ended', linuxOnly, async t => {
  const name = freshLock()
  const first = setUp(t, {}, name)
  const second = setUp(t, {}, name)
  await first.mode.sync([snapshot('IPv4')])
  const waiting = second.mode.sync([snapshot('IPv4')])
  await until('it says so', () => second.told.length > 0)
  t.strictSame(second.told, ['waits for a test'])
  t.strictSame(second.v4.calls, [])
  t.strictSame(await first.mode.drain(), { reset: 0 })
  await waiting
  t.strictSame(second.v4.calls, ['sync', 'watch'])
})

t.test('at its end it waits for what is under way, and then touches nothing', async t => {
  const { mode, v4 } = setUp(t)
  let open = () => {}
  v4.gate = new Promise(resolve => (open = resolve))
  const sync = mode.sync([snapshot('IPv4')])
  await until('it is under way', () => v4.calls.length > 0)
  let ended = false
  const closing = mode.close().then(() => (ended = true))
  await new Promise(resolve => setTimeout(resolve, 20))
  t.notOk(ended)
  open()
  await Promise.all([sync, closing])
  t.strictSame(v4.calls, ['sync', 'close'], 'nobody watches a mode that ends')
  await t.rejects(mode.sync([snapshot('IPv4')]), /has ended/)
})

t.test(
  'a restore that takes long is over before the next one’s turn',
  linuxOnly,
  async t => {
    const name = freshLock()
    const clock = new FakeClock()
    const tools = new StoppableTools()
    const { mode, v4, told, guarded } = setUp(t, { clock, tools }, name)
    const second = setUp(t, {}, name)
    const pidFile = join(t.testdir({}), 'pid')
    v4.sync = async () => {
      // As a proxier does: what was refused in part is tried as a whole.
      const args = ['-c', `echo $$ > ${pidFile}; sleep 60`]
      await tools.run('sh', args).catch(() => tools.run('sh', args))
      throw new Error('it is not to come to this')
    }
    const failing = t.rejects(
      mode.sync([snapshot('IPv4', servicePort('web'))]),
      /Usher is ending/,
    )
    const pid = () => (existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0)
    await until('it writes', () => pid() > 0)
    const waiting = second.mode.sync([snapshot('IPv4')])
    await until('the second waits', () => second.told.length > 0)
    const draining = mode.drain()
    await until('it has patience', () => clock.waiting > 0)
    t.strictSame(second.v4.calls, [])
    clock.advance(3000)
    await Promise.all([draining, failing, waiting])
    t.throws(() => process.kill(pid(), 0), { code: 'ESRCH' })
    t.strictSame(guarded, [], 'the settings are the next one’s')
    t.strictSame(told, ['prepare'])
    await mode.close()
  },
)

t.test('a sync that ends in time opens and removes nothing any more', async t => {
  const { mode, v4, told, guarded } = setUp(t)
  let open = () => {}
  v4.gate = new Promise(resolve => (open = resolve))
  const sync = mode.sync([snapshot('IPv4')])
  await until('it is under way', () => v4.calls.length > 0)
  const closing = mode.close()
  open()
  await Promise.all([sync, closing])
  t.strictSame(guarded, [])
  t.strictSame(told, ['prepare', 'IPv4 full'])
})

t.test('whoever waits for the lock can be ended', linuxOnly, async t => {
  const name = freshLock()
  const first = setUp(t, {}, name)
  const second = setUp(t, {}, name)
  await first.mode.sync([snapshot('IPv4')])
  const waiting = second.mode.sync([snapshot('IPv4')])
  const refused = t.rejects(waiting, /has ended/)
  await second.mode.close()
  await refused
})
