import t from 'tap'
import { Pauses } from '../../src/mode/pauses.ts'
import type { RelayListener } from '../../src/relay/relay.ts'
import { FakeClock } from '../support/fake-clock.ts'

const listener = (name: string, over: Partial<RelayListener> = {}): RelayListener => ({
  id: `${name} ${over.protocol ?? 'TCP'}`,
  name,
  protocol: 'TCP',
  fronts: [],
  endpoints: [],
  affinityMs: 0,
  steered: [],
  ...over,
})

const setUp = () => {
  const clock = new FakeClock()
  const ended: string[] = []
  const pauses = new Pauses({
    clock,
    epoch: () => 1_000_000 + clock.now(),
    ended: (name, why) => void ended.push(`${name}: ${why}`),
  })
  return { clock, ended, pauses }
}

const forever = { reset: false, ms: undefined }

t.test('of the listeners those of its name are paused, with TCP', async t => {
  const { pauses } = setUp()
  const cut = ['10.0.0.1:80']
  const all = [
    listener('a', { cut }),
    listener('a', { id: 'a of the other family' }),
    listener('a', { protocol: 'UDP' }),
    listener('b'),
  ]
  t.equal(pauses.apply(all), all)
  pauses.pause('a', forever)
  const applied = pauses.apply(all)
  t.match(applied, [
    { paused: true, cut },
    { paused: true, cut: undefined },
    { paused: undefined },
    { paused: undefined },
  ])
  for (const i of [2, 3]) t.equal(applied[i], all[i])
  pauses.apply(all).forEach((one, i) => t.equal(one, applied[i], 'nothing has changed'))
  pauses.pause('a', { reset: true, ms: undefined })
  t.match(pauses.apply(all)[0], { paused: true, cut: 'all' })
  t.equal(pauses.resume('a'), true)
  t.equal(pauses.resume('a'), false)
  t.equal(pauses.apply(all), all)
})

t.test('it ends after its time, and the last time said counts', async t => {
  const { clock, ended, pauses } = setUp()
  pauses.pause('a', { reset: false, ms: 1000 })
  clock.advance(900)
  pauses.pause('a', { reset: false, ms: 500 })
  t.match(pauses.get('a'), { since: 1_000_000, until: 1_001_400 })
  clock.advance(499)
  t.strictSame(ended, [])
  clock.advance(1)
  t.strictSame(ended, ['a: its time is over'])
  t.equal(pauses.get('a'), undefined)
  t.strictSame(pauses.all(), [])

  pauses.pause('a', { reset: false, ms: 1000 })
  pauses.pause('a', forever)
  t.match(pauses.get('a'), { until: undefined })
  pauses.pause('b', { reset: false, ms: 1000 })
  pauses.resume('b')
  t.equal(clock.waiting, 0, 'one that is resumed is not ended once more')
  pauses.pause('b', { reset: false, ms: 1000 })
  pauses.close()
  t.equal(clock.waiting, 0)
  t.strictSame(pauses.all(), [])
  t.equal(ended.length, 1)
})

t.test('that of a listener which is gone is forgotten', async t => {
  const { clock, ended, pauses } = setUp()
  pauses.pause('a', { reset: false, ms: 1000 })
  pauses.pause('b', forever)
  t.match(pauses.apply([listener('a', { protocol: 'UDP' }), listener('b')]), [
    { paused: undefined },
    { paused: true },
  ])
  t.strictSame(ended, ['a: it is gone'])
  t.equal(clock.waiting, 0)
  t.match(pauses.apply([listener('a'), listener('b')]), [
    { paused: undefined },
    { paused: true },
  ])
})
