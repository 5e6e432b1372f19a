import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import { gone, node, put, service, slice } from '../support/objects.ts'

const at = (lastChangeTriggerTime: number, address: string, name = 'web-1') =>
  put(slice([address], { name, lastChangeTriggerTime }))

const nothing = { services: 0, endpoints: 0 }
const noTimes = { IPv4: [], IPv6: [] }

/** What the metrics learn of changes, as from kube-proxy's change trackers. */
t.test('changes', async t => {
  t.test('changes are pending until they are checked out', async t => {
    const registry = new Registry()
    t.same(registry.pending(), nothing)
    registry.apply([put(service('a')), put(service('b')), put(slice(['10.1.0.1']))])
    t.same(registry.pending(), { services: 2, endpoints: 1 })
    t.same(registry.checkout(), { services: 2, endpoints: 1, triggerTimes: noTimes })
    t.same(registry.pending(), nothing)
    t.same(registry.checkout(), { ...nothing, triggerTimes: noTimes })
  })

  t.test('a Service that changes twice is pending once and counts twice', async t => {
    const registry = new Registry()
    registry.apply([put(service('a')), put(service('a', { affinityMs: 1 }))])
    t.equal(registry.pending().services, 1)
    t.equal(registry.checkout().services, 2)
  })

  t.test('a Service that is back as it was is not pending', async t => {
    const registry = new Registry()
    registry.apply([put(service('a')), gone('Service', 'a')])
    t.same(registry.pending(), nothing)
    registry.apply([put(service('a'))])
    registry.checkout()
    registry.apply([put(service('a', { affinityMs: 1 })), put(service('a'))])
    t.same(registry.pending(), nothing)
  })

  t.test('what arrives as it was, or goes unseen, is no change', async t => {
    const registry = new Registry()
    registry.apply([put(service('a')), at(5, '10.1.0.1')])
    registry.checkout()
    registry.apply([
      put(service('a')),
      at(6, '10.1.0.1'),
      gone('Service', 'x'),
      gone('EndpointSlice', 'x'),
      put(node()),
    ])
    t.same(registry.pending(), nothing)
    t.same(registry.checkout(), { ...nothing, triggerTimes: noTimes })
  })

  t.test('trigger times of changed slices are handed out once', async t => {
    const registry = new Registry({ startedAt: 10 })
    registry.apply([
      at(11, '10.1.0.1'),
      at(12, '10.1.0.2'),
      at(13, '10.1.0.3', 'web-2'),
      at(0, '10.1.0.4', 'without'),
    ])
    t.same(registry.checkout().triggerTimes.IPv4, [11, 12, 13])
    t.same(registry.checkout().triggerTimes, noTimes)
  })

  t.test('trigger times go to the family of their slice', async t => {
    const registry = new Registry()
    const six = slice(['fd00::1'], {
      name: 'web-6',
      family: 'IPv6',
      lastChangeTriggerTime: 7,
    })
    registry.apply([at(5, '10.1.0.1'), put(six)])
    t.same(registry.checkout().triggerTimes, { IPv4: [5], IPv6: [7] })
  })

  t.test('those not younger than the process are left out', async t => {
    const registry = new Registry({ startedAt: 10 })
    registry.apply([at(9, '10.1.0.1'), at(10, '10.1.0.2')])
    t.same(registry.checkout().triggerTimes, noTimes)
  })

  t.test('those of a slice that went are left out, those of others stay', async t => {
    const registry = new Registry()
    registry.apply([at(1, '10.1.0.1'), at(2, '10.1.0.2', 'web-2')])
    registry.apply([gone('EndpointSlice', 'web-1')])
    t.same(registry.checkout(), {
      services: 0,
      endpoints: 3,
      triggerTimes: { IPv4: [2], IPv6: [] },
    })
  })

  t.test('where nobody checks out their number has a bound', async t => {
    const registry = new Registry()
    for (let i = 1; i <= 20_100; i++) registry.apply([at(i, `10.1.0.${i & 1}`)])
    t.equal(registry.checkout().triggerTimes.IPv4.length, 20_000)
    registry.apply([at(1, '10.1.0.9')])
    t.same(registry.checkout().triggerTimes.IPv4, [1])
  })
})
