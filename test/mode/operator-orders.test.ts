import t from 'tap'
import { type NewOrder, OperatorOrders } from '../../src/mode/operator-orders.ts'
import type { ServicePort } from '../../src/model/snapshot.ts'
import type { RelayListener } from '../../src/relay/relay.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { frontOf } from '../support/relay-fixture.ts'

const keys = ['10.0.0.1:80', '10.0.0.2:80', '[fd00::1]:80']
const addressed = (key: string) => {
  const address = key.slice(0, -3).replace(/[[\]]/g, '')
  return { key, address, port: 80 }
}

const listener = (name: string, over: Partial<RelayListener> = {}): RelayListener => ({
  id: `${name} ${over.protocol ?? 'TCP'}`,
  name,
  protocol: 'TCP',
  fronts: [frontOf([{ address: '127.0.0.1', port: 80 }])],
  endpoints: keys.map(addressed),
  affinityMs: 0,
  steered: [],
  ...over,
})

/** The ServicePorts of listeners, with these endpoints. */
const portsOf = (
  listeners: readonly RelayListener[],
  endpoints = keys,
): readonly ServicePort[] =>
  listeners.map(
    ({ name, protocol }) =>
      ({ name, protocol, endpoints: endpoints.map(addressed) }) as unknown as ServicePort,
  )

const setUp = () => {
  const clock = new FakeClock()
  const ended: string[] = []
  const orders = new OperatorOrders({
    clock,
    epoch: () => 1_000_000 + clock.now(),
    ended: (all, why) => {
      for (const { kind, name, endpoint } of all)
        ended.push(`${kind} ${name}${endpoint && ` ${endpoint}`}: ${why}`)
    },
  })
  const apply = (...all: RelayListener[]) => orders.apply(all, portsOf(all))
  return { clock, ended, orders, apply }
}

const pause = (name: string, reset = false): NewOrder => ({
  kind: 'pause',
  name,
  endpoint: '',
  reset,
})
const drain = (name: string, endpoint = keys[0] ?? ''): NewOrder => ({
  kind: 'drain',
  name,
  endpoint,
  close: 'none',
})
const weight = (name: string, of: number, endpoint = keys[0] ?? ''): NewOrder => ({
  kind: 'weight',
  name,
  endpoint,
  weight: of,
})

t.test('of the listeners those of its name are paused, with TCP', async t => {
  const { orders, apply } = setUp()
  const cut = ['10.0.0.1:80']
  const all = [
    listener('a', { cut }),
    listener('a', { id: 'a of the other family' }),
    listener('a', { protocol: 'UDP' }),
    listener('b'),
  ]
  t.equal(orders.apply(all, []), all, 'nothing is looked at where nothing is ordered')
  orders.give([pause('a')], undefined)
  const applied = apply(...all)
  t.match(applied, [
    { paused: true, cut },
    { paused: true, cut: undefined },
    { paused: undefined },
    { paused: undefined },
  ])
  for (const i of [2, 3]) t.equal(applied[i], all[i])
  apply(...all).forEach((one, i) => t.equal(one, applied[i], 'nothing has changed'))
  orders.give([pause('a', true)], undefined)
  t.match(apply(...all)[0], { paused: true, cut: 'all' })
  t.equal(orders.withdraw([pause('a')]), 1)
  t.equal(orders.withdraw([pause('a')]), 0)
  t.equal(orders.apply(all, []), all)
})

t.test('endpoints are drained, and have other weights', async t => {
  const { orders, apply } = setUp()
  const [tcp, udp, other] = [
    listener('a'),
    listener('a', { protocol: 'UDP' }),
    listener('b'),
  ]
  orders.give([drain('a'), { ...weight('a', 9), endpoint: keys[1] ?? '' }], undefined)
  for (const one of apply(tcp, udp).values())
    t.match(one, {
      drained: [{ key: keys[0], close: 'none' }],
      endpoints: [{ weight: undefined }, { key: keys[1], weight: 9 }, {}],
      fronts: [{ closedReason: 'no endpoints' }],
    })
  t.equal(apply(tcp, other)[1], other)
  orders.give([{ ...drain('a'), kind: 'drain', close: 'all' }], undefined)
  orders.give([drain('a', keys[1]), drain('a', keys[2])], undefined)
  t.match(apply(tcp)[0], {
    drained: [{ key: keys[0], close: 'all' }, { key: keys[1] }, { key: keys[2] }],
    fronts: [{ closedReason: 'all endpoints are drained' }],
  })
  orders.give([pause('a')], undefined)
  t.match(apply(tcp)[0], { paused: true, drained: { length: 3 } }, 'beside each other')
  orders.withdraw(orders.all())
  t.equal(apply(tcp)[0], tcp)
})

t.test('one ends after its time, and the last time said counts', async t => {
  const { clock, ended, orders } = setUp()
  orders.give([pause('a')], 1000)
  clock.advance(900)
  orders.give([pause('a')], 500)
  orders.give([drain('a'), drain('b')], 700)
  t.match(orders.get('pause', 'a'), { since: 1_000_000, until: 1_001_400 })
  clock.advance(499)
  t.strictSame(ended, [])
  clock.advance(1)
  t.strictSame(ended, ['pause a: its time is over'])
  t.equal(orders.get('pause', 'a'), undefined)
  clock.advance(200)
  t.strictSame(ended.slice(1), [
    'drain a 10.0.0.1:80: its time is over',
    'drain b 10.0.0.1:80: its time is over',
  ])
  t.strictSame(orders.all(), [])

  orders.give([pause('a')], 1000)
  orders.give([pause('a')], undefined)
  t.match(orders.get('pause', 'a'), { until: undefined })
  orders.give([pause('b')], 1000)
  orders.withdraw([pause('b')])
  t.equal(clock.waiting, 0, 'one that is withdrawn is not ended once more')
  orders.give([pause('b')], 1000)
  orders.close()
  t.equal(clock.waiting, 0)
  t.strictSame(orders.all(), [])
  t.equal(ended.length, 3)
})

t.test('what is gone is forgotten, and not what is only down', async t => {
  const { clock, ended, orders } = setUp()
  const [a, b] = [listener('a', { protocol: 'UDP' }), listener('b')]
  const [first = '', second = ''] = keys
  orders.give([pause('a'), drain('b'), weight('b', 3, second)], 1000)
  orders.give([pause('b')], undefined)
  t.match(orders.apply([a, b], portsOf([a, b])), [
    { paused: undefined },
    { paused: true },
  ])
  t.strictSame(ended.splice(0), ['pause a: it is gone'], 'UDP can not be paused')
  // A check that fails takes it from the listener, and not from the ServicePort.
  const down = { ...b, endpoints: b.endpoints.slice(1) }
  t.match(orders.apply([down], portsOf([down])), [{ drained: [{ key: first }] }])
  t.strictSame(ended, [])
  t.match(orders.apply([down], portsOf([down], [second])), [{ drained: undefined }])
  t.strictSame(ended.splice(0), [`drain b ${first}: it is gone`])
  t.match(orders.apply([b], portsOf([b])), [
    { drained: undefined, endpoints: [{ weight: undefined }, { weight: 3 }, {}] },
  ])
  orders.apply([a], portsOf([a]))
  t.strictSame(ended, [`weight b ${second}: it is gone`, 'pause b: it is gone'])
  t.equal(clock.waiting, 0)
})

t.test('10 000 endpoints', async t => {
  const { clock, ended, orders } = setUp()
  const names = Array.from({ length: 10_000 }, (_, i) => `s${i}`)
  const all = names.map(name => listener(name))
  const ports = portsOf(all)
  const began = performance.now()
  orders.give(
    names.map(name => drain(name)),
    1000,
  )
  const applied = orders.apply(all, ports)
  t.ok(applied.every(({ drained }) => drained?.length === 1))
  t.ok(orders.apply(all, ports).every((one, i) => one === applied[i]))
  t.equal(clock.waiting, 1, 'one timer for all')
  clock.advance(1000)
  t.equal(ended.length, 10_000)
  const ms = performance.now() - began
  t.ok(ms < 5000, `${ms} ms`)
})
