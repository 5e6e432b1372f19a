import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { NodeClientsWatch } from '../../src/mode/node-clients.ts'
import { NodeClientSet, noNodeClients } from '../../src/relay/node-clients.ts'
import type { NodeClients } from '../../src/relay/relay.ts'
import { Reconciler } from '../../src/mode/reconciler.ts'
import { Registry } from '../../src/model/registry.ts'
import type { Change } from '../../src/model/service.ts'
import type { Snapshot } from '../../src/model/snapshot.ts'
import type { IpFamily } from '../../src/util/ip.ts'
import { FakeClock } from '../support/fake-clock.ts'
import {
  endpoint,
  gone,
  notReady,
  put,
  service,
  slice,
  terminating,
} from '../support/objects.ts'
import { until } from '../support/until.ts'

/** A reconciler whose syncs are written down, and can be made to fail or to wait. */
const fixture = (t: Test, mostWaitMs = 0) => {
  const clock = new FakeClock()
  const syncs: (readonly Snapshot[])[] = []
  const applied: [IpFamily, readonly number[]][] = []
  const queued: IpFamily[] = []
  const failures: unknown[] = []
  const state = { error: undefined as Error | undefined, gate: Promise.resolve() }
  const reconciler = new Reconciler({
    clock,
    registry: new Registry(),
    sync: async snapshots => {
      syncs.push(snapshots)
      await state.gate
      if (state.error !== undefined) throw state.error
    },
    observers: [
      {
        queued: family => void queued.push(family),
        applied: (family, { triggerTimes }) => void applied.push([family, triggerTimes]),
      },
    ],
    failed: error => void failures.push(error),
    problems: () => {},
    taken: () => {},
    mostWaitMs,
    maxMs: 30_000,
  })
  t.teardown(() => reconciler.close())
  const apply = (...changes: Change[]): void => reconciler.apply(changes)
  /** Lets what is due run, until there have been so many syncs. */
  const synced = async (count: number): Promise<void> => {
    await until(`${count} syncs`, () => {
      clock.advance(0)
      return syncs.length >= count
    })
  }
  return { clock, reconciler, syncs, applied, queued, failures, state, apply, synced }
}

t.test('nothing is synced before the source has said that it is complete', async t => {
  const { reconciler, clock, syncs, queued, apply, synced } = fixture(t)
  apply(put(service()))
  clock.advance(60_000)
  t.strictSame([syncs.length, queued.length], [0, 0])
  reconciler.synced()
  await synced(1)
  t.equal(syncs[0]?.[0]?.servicePorts.size, 1)
  await reconciler.firstSync
})

t.test('a burst of changes costs one sync', async t => {
  const { reconciler, syncs, clock, apply, synced } = fixture(t)
  reconciler.synced()
  for (let i = 0; i < 10; i += 1) apply(put(service(`web-${i}`)))
  await synced(1)
  await reconciler.firstSync
  clock.advance(0)
  t.equal(syncs.length, 1)
})

t.test(
  'what takes an endpoint away is synced at once, all else with what comes',
  async t => {
    const [a, b] = ['10.1.0.1', '10.1.0.2']
    const both = slice([a, b])
    const cases: [why: string, change: Change, waitMs: number][] = [
      ['an endpoint goes', put(slice([a])), 0],
      ['one is not ready', put(slice([a, endpoint(b, notReady)])), 0],
      ['one terminates', put(slice([a, endpoint(b, terminating)])), 0],
      ['the slice goes', gone('EndpointSlice', 'web-1'), 0],
      ['its port is another', put(slice([a, b], { ports: [] })), 0],
      ['its Service is another', put(slice([a, b], { serviceName: 'other' })), 0],
      ['one comes', put(slice([a, b, '10.1.0.3'])), 10],
      ['one is ready again', put(slice([a, endpoint(b)], { name: 'web-2' })), 10],
      ['nothing changes', put(both), 10],
      ['a Service comes', put(service('new', { clusterIPs: ['10.0.0.2'] })), 10],
      ['a Service goes', gone('Service', 'web'), 10],
    ]
    for (const [why, change, waitMs] of cases) {
      const { clock, reconciler, syncs, apply, synced } = fixture(t, 1000)
      const unready = slice([endpoint(b, notReady)], { name: 'web-2' })
      apply(put(service()), put(both), put(unready))
      reconciler.synced()
      await synced(1)
      await reconciler.firstSync
      clock.advance(5000)
      apply(change)
      let waited = 0
      for (; waited <= 10; waited += 1) {
        clock.advance(waited === 0 ? 0 : 1)
        await setImmediate()
        if (syncs.length > 1) break
      }
      t.equal(waited, waitMs, why)
    }
  },
)

t.test('a Service and its slice that come together are one sync', async t => {
  const { clock, reconciler, syncs, apply, synced } = fixture(t, 1000)
  reconciler.synced()
  await synced(1)
  await reconciler.firstSync
  clock.advance(5000)
  apply(put(service()))
  clock.advance(9)
  await setImmediate()
  apply(put(slice(['10.1.0.1'])))
  clock.advance(1)
  await synced(2)
  const { reachable } = [...(syncs[1]?.[0]?.servicePorts.values() ?? [])][0] ?? {}
  t.match(reachable, [{ address: '10.1.0.1' }])
})

t.test('what comes during a sync is served by one more', async t => {
  const { reconciler, syncs, state, queued, apply, synced } = fixture(t)
  let open: () => void = () => {}
  state.gate = new Promise(resolve => (open = resolve))
  reconciler.synced()
  await synced(1)
  apply(put(service()))
  open()
  await reconciler.firstSync
  await synced(2)
  t.equal(syncs[1]?.[0]?.servicePorts.size, 1)
  t.ok(queued.length >= 2)
})

t.test('trigger times go to their family, once, when a sync has succeeded', async t => {
  const { reconciler, clock, applied, failures, state, apply, synced } = fixture(t)
  state.error = new Error('no')
  apply(put(service()), put(slice(['10.1.0.1'], { lastChangeTriggerTime: 5 })))
  reconciler.synced()
  await synced(1)
  await until('it failed', () => failures.length === 1 && clock.waiting > 0)
  t.strictSame(applied, [])
  state.error = undefined
  clock.advance(500)
  await reconciler.firstSync
  t.strictSame(applied, [
    ['IPv4', [5]],
    ['IPv6', []],
  ])
})

t.test('snapshots and problems are those of the last sync', async t => {
  const { reconciler, apply, synced } = fixture(t)
  reconciler.synced()
  await synced(1)
  await reconciler.firstSync
  const before = reconciler.snapshots()
  apply(put(service('a')), put(service('b')))
  t.equal(reconciler.snapshots(), before)
  t.strictSame(reconciler.allProblems(), [])
  await synced(2)
  t.equal(reconciler.snapshots()[0]?.servicePorts.size, 1, 'one VIP, one Service')
  t.equal(reconciler.allProblems().length, 1)
})

t.test('who counts as a client of this node', async t => {
  const clock = new FakeClock()
  const state = { own: ['192.0.2.1', '2001:db8::1'], pods: ['10.244.0.0/24', 'nonsense'] }
  const told: NodeClients[] = []
  const watch = new NodeClientsWatch({
    clock,
    ownAddresses: () => state.own,
    podCidrs: () => state.pods,
    changed: clients => void told.push(clients),
    failed: () => {},
  })
  const isOne = (address: string): boolean => {
    const clients = new NodeClientSet()
    clients.set(told.at(-1) ?? noNodeClients)
    return clients.has(address)
  }
  t.equal(isOne('127.0.0.1'), false, 'before it is known')
  watch.poll()
  const cases: [why: string, address: string, expected: boolean][] = [
    ['loopback', '127.8.9.1', true],
    ['IPv6 loopback', '::1', true],
    ['an address of an interface', '192.0.2.1', true],
    ['one of IPv6', '2001:db8::1', true],
    ['a pod of its range', '10.244.0.77', true],
    ['a pod elsewhere', '10.244.1.77', false],
    ['a stranger', '198.51.100.1', false],
  ]
  for (const [why, address, expected] of cases) t.equal(isOne(address), expected, why)
  watch.poll()
  state.own = ['2001:db8::1', '192.0.2.1']
  watch.poll()
  t.equal(told.length, 1, 'what is the same is not told again')
  state.own = []
  clock.advance(4999)
  t.equal(isOne('192.0.2.1'), true)
  clock.advance(1)
  t.equal(isOne('192.0.2.1'), false, 'looked at every 5 s')
  watch.stop()
  t.equal(clock.waiting, 0)
})

t.test("a list of interfaces that can't be read ends nothing", async t => {
  const clock = new FakeClock()
  let error: Error | undefined = new Error('no descriptor')
  const [told, problems]: [NodeClients[], string[]] = [[], []]
  const watch = new NodeClientsWatch({
    clock,
    ownAddresses: () => {
      if (error !== undefined) throw error
      return ['192.0.2.1']
    },
    podCidrs: () => [],
    changed: clients => void told.push(clients),
    failed: why => void problems.push(why),
  })
  t.throws(() => watch.poll(), /no descriptor/, 'nothing is known: the sync fails')
  t.equal(clock.waiting, 0)
  error = undefined
  watch.poll()
  error = new Error('no descriptor')
  watch.poll()
  clock.advance(15_000)
  t.strictSame(problems, ['no descriptor'], 'told once')
  error = undefined
  clock.advance(5000)
  t.strictSame(problems, ['no descriptor', ''])
  t.equal(told.length, 1, 'what was known has gone on')
  watch.stop()
})
