import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { type Balanced, Balancer } from '../../src/balance/balancer.ts'
import { type Cell, OwnCell } from '../../src/balance/cell.ts'
import { noCooldown, type Cooldown } from '../../src/balance/cooldown.ts'
import { SharedEndpointState } from '../../src/relay/engine/shared/shared-endpoint-state.ts'

interface Target extends Balanced {
  readonly cooldown: Cell<Cooldown>
}
const targets = (...keys: string[]): Target[] =>
  keys.map(key => ({ key, cooldown: new OwnCell(noCooldown) }))
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

  t.test('are tried by another when nothing is heard of the first', async t => {
    const set = setUp()
    set.balancer.failed(set.a, 1000)
    set.clock.time = 1000
    t.ok(next(set, 6).includes('a'))
    set.clock.time = 1999
    t.notOk(next(set, 6).includes('a'))
    set.clock.time = 2000
    t.equal(next(set, 6).filter(key => key === 'a').length, 1)
  })

  t.test('rest twice as long each time that they fail again', async t => {
    const set = setUp()
    const cooldowns = [0, 0, 0, 0, 0].map(() => {
      const from = set.clock.time
      set.balancer.failed(set.a, 1000, 6000)
      set.clock.time = set.a.cooldown.read().until
      return set.clock.time - from
    })
    t.same(cooldowns, [1000, 2000, 4000, 6000, 6000])
    set.balancer.served(set.a)
    set.balancer.failed(set.a, 1000, 6000)
    t.equal(set.a.cooldown.read().until - set.clock.time, 1000)
  })

  t.test('rest no longer for connections that fail while they rest', async t => {
    const set = setUp()
    for (let i = 0; i < 100; i += 1) set.balancer.failed(set.a, 1000, 60_000)
    set.clock.time = 999
    t.equal(set.balancer.isCoolingDown(set.a), true)
    set.clock.time = 1000
    t.equal(set.balancer.isCoolingDown(set.a), false)
  })

  t.test('rest longer when the probe fails', async t => {
    const set = setUp()
    set.balancer.failed(set.a, 1000, 60_000)
    set.clock.time = 1000
    t.ok(next(set, 3).includes('a'))
    set.clock.time = 1100
    set.balancer.failed(set.a, 1000, 60_000)
    t.equal(set.a.cooldown.read().until, 3100)
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
    set.balancer.setEndpoints([...targets('a'), set.b])
    t.same(new Set(next(set, 2)), new Set(['a', 'b']))
  })
})

t.test('endpoints of a higher tier', async t => {
  const setUp = () => {
    const clock = { time: 0, now: () => clock.time }
    const balancer = new Balancer<Target>(clock, () => 0)
    const [a, b] = targets('a', 'b')
    const c = { key: 'c', tier: 1, cooldown: new OwnCell(noCooldown) }
    const d = { key: 'd', tier: 1, cooldown: new OwnCell(noCooldown) }
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

/** Some balancers over the same endpoints: those of one thread, or of one worker each. */
const sharers = (keys: readonly string[], workers: number) => {
  const clock = { time: 0, now: () => clock.time }
  const pages = new SharedEndpointState()
  pages.ensure(keys.length)
  const own = keys.map(() => new OwnCell(noCooldown))
  const cooldownOf = (i: number): Cell<Cooldown> =>
    workers === 1 ? (own[i] ?? new OwnCell(noCooldown)) : pages.cooldownOf(i)
  const balancers = Array.from({ length: workers }, () => {
    const balancer = new Balancer<Target>(clock, () => 0)
    balancer.setEndpoints(keys.map((key, i) => ({ key, cooldown: cooldownOf(i) })))
    return balancer
  })
  return { clock, pages, balancers }
}

t.test('four workers that share cooldowns', async t => {
  const { clock, pages, balancers } = sharers(['a', 'b'], 4)
  const next = (times: number): string[] =>
    balancers.flatMap(one => taken(times, () => one.pick('10.0.0.1')))
  const of = (worker: number) => {
    const balancer = balancers[worker]
    const endpoint = balancer?.get('a')
    if (balancer === undefined || endpoint === undefined) throw new Error('four')
    return { balancer, endpoint }
  }
  t.test('pass an endpoint over that failed for one of them', async t => {
    of(1).balancer.failed(of(1).endpoint, 1000, 60_000)
    t.notOk(next(2).includes('a'))
    t.equal(of(3).balancer.isCoolingDown(of(3).endpoint), true)
  })
  t.test('have one connection try it, and double its rest once', async t => {
    clock.time = 1000
    t.equal(next(4).filter(key => key === 'a').length, 1)
    for (const worker of [0, 1, 2, 3]) {
      of(worker).balancer.failed(of(worker).endpoint, 1000, 60_000)
    }
    t.strictSame(pages.readCooldown(0), { until: 3000, failures: 2, isProbed: false })
  })
  t.test('all take it again when it served one', async t => {
    of(2).balancer.served(of(2).endpoint)
    t.equal(next(4).filter(key => key === 'a').length, 8)
  })
  t.test("change nothing of the slot's next endpoint", async t => {
    const late = of(0)
    const before = pages.cooldownOf(1)
    pages.renew(0)
    const newcomer = pages.cooldownOf(0)
    late.balancer.failed(late.endpoint, 1000)
    t.strictSame(newcomer.read().failures, 0)
    t.equal(late.balancer.isCoolingDown(late.endpoint), false)
    newcomer.change(() => ({ until: 5000, failures: 1, isProbed: false }))
    late.balancer.served(late.endpoint)
    t.strictSame(newcomer.read(), { until: 5000, failures: 1, isProbed: false })
    t.equal(before.read().failures, 0, 'nor of others')
  })
})

t.test('a shared cooldown keeps what is put there, whatever the generation', async t => {
  const pages = new SharedEndpointState()
  pages.ensure(0)
  const cooldowns = fc.record(
    {
      until: fc.integer({ min: 0, max: 2 ** 41 - 1 }),
      failures: fc.integer({ min: 1, max: 63 }),
      isProbed: fc.boolean(),
    },
    { noNullPrototype: true },
  )
  for (let generation = 0; generation < 70_000; generation += 1) pages.renew(0)
  t.strictSame(pages.readCooldown(0).failures, 0)
  fc.assert(
    fc.property(cooldowns, fc.nat(40_000), (cooldown, renewals) => {
      for (let i = 0; i < renewals; i += 1) pages.renew(0)
      const cell = pages.cooldownOf(0)
      assert.ok(cell.change(() => cooldown))
      assert.deepEqual(cell.read(), cooldown)
      assert.deepEqual(pages.readCooldown(0), cooldown)
    }),
  )
})

type Step = readonly ['fails' | 'serves' | 'wait' | 'pick', number, number]

t.test('whatever happens, an endpoint that was not tried is picked', async () => {
  const step = fc.tuple(
    fc.constantFrom<Step[0][]>('fails', 'serves', 'wait', 'pick'),
    fc.nat(3),
    fc.nat(2),
  )
  for (const workers of [1, 4]) {
    const pools = fc.integer({ min: 1, max: 3 })
    fc.assert(
      fc.property(pools, fc.array(step, { maxLength: 60 }), (size, steps) => {
        const keys = ['a', 'b', 'c'].slice(0, size)
        const { clock, balancers } = sharers(keys, workers)
        for (const [what, worker, which] of steps as Step[]) {
          const balancer = balancers[worker % workers]
          const endpoint = balancer?.get(keys[which % size] ?? '')
          assert.ok(balancer !== undefined && endpoint !== undefined)
          if (what === 'fails') balancer.failed(endpoint, 1000, 60_000)
          else if (what === 'serves') balancer.served(endpoint)
          else if (what === 'wait') clock.time += [10, 1000, 70_000][which] ?? 0
          const tried = new Set<string>()
          for (let left = size; left > 0; left -= 1) {
            const picked = balancer.pick('10.0.0.1', tried)
            assert.ok(picked !== undefined && !tried.has(picked.key))
            tried.add(picked.key)
          }
          assert.equal(balancer.pick('10.0.0.1', tried), undefined)
        }
      }),
      { numRuns: 300 },
    )
  }
})
