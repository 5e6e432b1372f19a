import t from 'tap'
import { Balancer } from '../../src/balance/balancer.ts'

interface Target {
  readonly key: string
}
const targets = (...keys: string[]): Target[] => keys.map(key => ({ key }))
const taken = (times: number, take: () => Target | undefined): string[] =>
  Array.from({ length: times }, () => take()?.key ?? 'none')

t.test('endpoints that failed a moment ago', async t => {
  const setUp = () => {
    const clock = { time: 0, now: () => clock.time }
    const balancer = new Balancer<Target>(clock, () => 0)
    const [a, b, c] = targets('a', 'b', 'c')
    if (a === undefined || b === undefined || c === undefined) throw new Error('three')
    balancer.setEndpoints([a, b, c])
    return { clock, balancer, a, b, c }
  }
  const next = ({ balancer }: ReturnType<typeof setUp>, times: number) =>
    taken(times, () => balancer.pick('10.0.0.1'))

  t.test('come last while they rest, and take their turn again after it', async t => {
    const set = setUp()
    set.balancer.failed(set.a, 1000)
    t.same(next(set, 4), ['b', 'c', 'b', 'c'])
    set.clock.time = 1000
    t.equal(next(set, 2).includes('a'), true)
  })

  t.test('are used all the same when there is no other', async t => {
    const set = setUp()
    for (const one of [set.a, set.b, set.c]) set.balancer.failed(one, 1000)
    t.same(next(set, 3), ['a', 'b', 'c'])
    t.equal(set.balancer.pick('10.0.0.1', new Set(['a', 'b']))?.key, 'c')
  })

  t.test('are tried by one connection at a time until one gets through', async t => {
    const set = setUp()
    set.balancer.failed(set.a, 1000)
    set.clock.time = 1500
    t.equal(next(set, 6).filter(key => key === 'a').length, 1, 'one probes')
    set.balancer.served(set.a)
    t.equal(next(set, 6).filter(key => key === 'a').length, 2, 'then all may')
  })

  t.test('rest twice as long each time that they fail again', async t => {
    const set = setUp()
    const rests = [0, 0, 0, 0, 0].map(() => {
      const from = set.clock.time
      set.clock.time = set.balancer.failed(set.a, 1000, 6000)
      return set.clock.time - from
    })
    t.same(rests, [1000, 2000, 4000, 6000, 6000])
    set.balancer.served(set.a)
    t.equal(set.balancer.failed(set.a, 1000, 6000) - set.clock.time, 1000)
  })

  t.test('rest no longer for connections that fail while they rest', async t => {
    const set = setUp()
    for (let i = 0; i < 100; i += 1) set.balancer.failed(set.a, 1000, 60_000)
    set.clock.time = 999
    t.equal(set.balancer.isResting('a'), true)
    set.clock.time = 1000
    t.equal(set.balancer.isResting('a'), false)
  })

  t.test('rest longer when the probe fails', async t => {
    const set = setUp()
    set.balancer.failed(set.a, 1000, 60_000)
    set.clock.time = 1000
    t.ok(next(set, 3).includes('a'))
    set.clock.time = 1100
    t.equal(set.balancer.failed(set.a, 1000, 60_000), 3100)
  })

  t.test('keep the clients that have affinity to them', async t => {
    const set = setUp()
    set.balancer.setAffinity(60_000)
    set.balancer.connected('10.0.0.1', set.b)
    set.balancer.failed(set.b, 1000)
    t.equal(set.balancer.pick('10.0.0.1')?.key, 'b')
    t.not(set.balancer.pick('10.0.0.1', new Set(['b']))?.key, 'b')
    t.not(set.balancer.pick('10.0.0.2')?.key, 'b')
  })

  t.test('are fresh when they come back after being removed', async t => {
    const set = setUp()
    set.balancer.failed(set.a, 1000)
    set.balancer.setEndpoints([set.b])
    set.balancer.setEndpoints([set.a])
    set.balancer.setEndpoints([set.a, set.b])
    t.same(new Set(next(set, 2)), new Set(['a', 'b']))
  })
})

t.test('endpoints of a higher tier', async t => {
  const setUp = () => {
    const clock = { time: 0, now: () => clock.time }
    const balancer = new Balancer<{ key: string; tier?: number }>(clock, () => 0)
    const [a, b] = targets('a', 'b')
    const c = { key: 'c', tier: 1 }
    const d = { key: 'd', tier: 1 }
    if (a === undefined || b === undefined) throw new Error('two')
    balancer.setEndpoints([c, a, d, b])
    const next = (times: number, tried?: ReadonlySet<string>) =>
      taken(times, () => balancer.pick('10.0.0.1', tried))
    return { clock, balancer, a, b, c, d, next }
  }

  t.test('get nothing while one of a lower tier serves', async t => {
    const { balancer, a, next } = setUp()
    t.same(next(4), ['a', 'b', 'a', 'b'])
    balancer.failed(a, 1000)
    t.same(next(3), ['b', 'b', 'b'])
  })

  t.test(
    'serve in turn when all of the lower have failed, and only until then',
    async t => {
      const { balancer, clock, a, b, next } = setUp()
      balancer.failed(a, 1000)
      balancer.failed(b, 1000)
      t.same(next(4), ['c', 'd', 'c', 'd'])
      clock.time = 1000
      t.same(next(2).toSorted(), ['a', 'b'], 'each is tried by one')
      t.same(next(2).toSorted(), ['c', 'd'], 'while it is found out')
      balancer.served(a)
      balancer.served(b)
      t.same(next(4).toSorted(), ['a', 'a', 'b', 'b'])
    },
  )

  t.test('come after the lower ones within one dial', async t => {
    const { next } = setUp()
    t.same(next(1, new Set(['a'])), ['b'])
    t.same(next(1, new Set(['a', 'b'])), ['c'])
    t.same(next(1, new Set(['a', 'b', 'c', 'd'])), ['none'])
  })

  t.test('come last when all rest', async t => {
    const { balancer, a, b, c, d, next } = setUp()
    for (const one of [a, b, c, d]) balancer.failed(one, 1000)
    t.same(next(2).toSorted(), ['a', 'b'])
  })

  t.test('keep a client with affinity only while no lower one serves', async t => {
    const { balancer, clock, a, b, c, next } = setUp()
    balancer.setAffinity(60_000)
    balancer.failed(a, 1000)
    balancer.failed(b, 1000)
    balancer.connected('10.0.0.1', c)
    t.same(next(3), ['c', 'c', 'c'])
    clock.time = 1000
    t.same(next(2).toSorted(), ['a', 'b'])
  })
})
