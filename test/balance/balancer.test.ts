import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { Affinity } from '../../src/balance/affinity.ts'
import { Balancer } from '../../src/balance/balancer.ts'
import { type Cell, OwnCell } from '../../src/balance/cell.ts'
import { noCooldown, type Cooldown } from '../../src/balance/cooldown.ts'
import { RoundRobin } from '../../src/balance/round-robin.ts'

interface Target {
  readonly key: string
  readonly cooldown: Cell<Cooldown>
}
const targets = (...keys: string[]): Target[] =>
  keys.map(key => ({ key, cooldown: new OwnCell(noCooldown) }))
const taken = (times: number, take: () => Target | undefined): (string | undefined)[] =>
  Array.from({ length: times }, () => take()?.key)

/** A round that starts at the first endpoint. */
const roundOf = (...keys: string[]): RoundRobin<Target> => {
  const round = new RoundRobin<Target>(() => 0)
  round.setEndpoints(targets(...keys))
  return round
}

t.test('round robin', async t => {
  t.test('takes endpoints in turn', async t => {
    const round = roundOf('a', 'b', 'c')
    t.same(
      taken(7, () => round.next()),
      ['a', 'b', 'c', 'a', 'b', 'c', 'a'],
    )
  })

  t.test('starts wherever the random number says', async t => {
    const starts = [0, 0.34, 0.99].map(random => {
      const round = new RoundRobin<Target>(() => random)
      round.setEndpoints(targets('a', 'b', 'c'))
      return round.next()?.key
    })
    t.same(starts, ['a', 'b', 'c'])
  })

  t.test('has nothing to give when empty', async t => {
    const round = roundOf()
    t.equal(round.next(), undefined)
    t.equal(round.size, 0)
  })

  t.test('passes over those to skip, and gives nothing when all are', async t => {
    const round = roundOf('a', 'b', 'c')
    t.equal(round.next(new Set(['a', 'b']))?.key, 'c')
    t.equal(round.next(new Set(['a', 'b', 'c'])), undefined)
    t.equal(round.next()?.key, 'a', 'a pick of nothing does not move the round')
  })

  t.test('goes on where it was when the same set comes in another order', async t => {
    const round = roundOf('a', 'b', 'c')
    round.next()
    t.equal(round.setEndpoints(targets('c', 'b', 'a')), false)
    t.same(
      taken(4, () => round.next()),
      ['b', 'c', 'a', 'b'],
    )
  })

  t.test('goes on with the successor when the next endpoint went', async t => {
    const round = roundOf('a', 'b', 'c')
    round.next()
    t.equal(round.setEndpoints(targets('a', 'c')), true)
    t.same(
      taken(3, () => round.next()),
      ['c', 'a', 'c'],
    )
  })

  t.test('goes on with the first when the next endpoint was last and went', async t => {
    const round = roundOf('a', 'b', 'c')
    round.next()
    round.next()
    round.setEndpoints(targets('a', 'b', 'new'))
    t.same(
      taken(3, () => round.next()),
      ['a', 'b', 'new'],
    )
  })

  t.test('counts an endpoint listed twice once, and as it is listed first', async t => {
    const round = roundOf()
    const list = targets('a', 'a', 'b')
    round.setEndpoints(list)
    t.equal(round.get('a'), list[0])
    t.equal(round.size, 2)
    t.same(
      taken(3, () => round.next()),
      ['a', 'b', 'a'],
    )
  })

  t.test('hands out the objects of the newest list', async t => {
    const round = roundOf('a')
    const [newer] = targets('a')
    round.setEndpoints(newer ? [newer] : [])
    t.equal(round.next(), newer)
    t.equal(round.get('a'), newer)
  })

  t.test('does what a plain list rotated by hand does', async () => {
    const keys = fc.array(fc.constantFrom<string[]>('a', 'b', 'c', 'd', 'e', 'f'), {
      maxLength: 8,
    })
    const step = fc.oneof(
      fc.record({ set: keys }),
      fc.record({ skip: keys }),
      fc.constant({ skip: [] as string[] }),
    )
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    fc.assert(
      fc.property(random, fc.array(step, { maxLength: 40 }), (start, steps) => {
        const round = new RoundRobin<Target>(() => start)
        // The model: whose turn it is stands first. Places in the ring are told by order.
        let queue: string[] = []
        let ring: string[] = []
        for (const todo of steps) {
          if ('set' in todo) {
            const wanted = [...new Set(todo.set)]
            const newcomers = wanted.filter(key => !ring.includes(key))
            queue = queue.filter(key => wanted.includes(key))
            ring = [...ring.filter(key => wanted.includes(key)), ...newcomers]
            const at = Math.floor(start * ring.length)
            const first = queue[0] ?? ring[at]
            const from = first === undefined ? 0 : ring.indexOf(first)
            queue = [...ring.slice(from), ...ring.slice(0, from)]
            round.setEndpoints(targets(...todo.set))
          } else {
            const skip = new Set(todo.skip)
            const expected = queue.find(key => !skip.has(key))
            const turn = expected === undefined ? 0 : queue.indexOf(expected) + 1
            queue = [...queue.slice(turn), ...queue.slice(0, turn)]
            const picked = skip.size === 0 ? round.next() : round.next(skip)
            assert.equal(picked?.key, expected)
          }
          assert.equal(round.size, ring.length)
        }
      }),
      { numRuns: 500 },
    )
  })
})

t.test('affinity', async t => {
  t.test('a client comes back to its endpoint until unused for the timeout', async t => {
    const affinity = new Affinity(100)
    affinity.remember('client', 'a', 0)
    t.equal(affinity.lookup('client', 99), 'a')
    t.equal(affinity.lookup('client', 100), undefined)
  })

  t.test('use makes the timeout start again, looking does not', async t => {
    const affinity = new Affinity(100)
    affinity.remember('used', 'a', 0)
    affinity.remember('looked at', 'a', 0)
    affinity.remember('used', 'a', 90)
    affinity.lookup('looked at', 90)
    t.equal(affinity.lookup('used', 150), 'a')
    t.equal(affinity.lookup('looked at', 150), undefined)
  })

  t.test('what another one remembers is as old here, and in its place', async t => {
    const other = new Affinity(100)
    const clients = ['expired', 'old', 'known', 'young'] as const
    for (const [i, client] of clients.entries()) other.remember(client, 'a', i * 30)
    const all = other.usedWithin(Infinity, 110)
    t.strictSame(all, [
      ['old', 'a', 80],
      ['known', 'a', 50],
      ['young', 'a', 20],
    ])
    t.strictSame(other.usedWithin(50, 110), all.slice(1))
    const affinity = new Affinity(100, 3)
    affinity.remember('known', 'b', 1000)
    affinity.remember('own', 'b', 1020)
    affinity.adopt(all, 1050)
    t.strictSame(
      affinity.usedWithin(Infinity, 1060),
      [
        ['known', 'b', 60],
        ['own', 'b', 40],
        ['young', 'a', 30],
      ],
      'newest first to stay: by use, not by when it was told',
    )
    t.equal(affinity.lookup('young', 1129), 'a')
    t.equal(affinity.lookup('young', 1130), undefined)
    affinity.adopt([['own', 'a', 100]], 1060)
    t.equal(affinity.lookup('own', 1060), 'b')
    affinity.sweep(1121)
    t.equal(affinity.size, 1, 'from the oldest on')
  })

  t.test('a changed timeout counts at once', async t => {
    const affinity = new Affinity(100)
    affinity.remember('client', 'a', 0)
    affinity.timeoutMs = 10
    t.equal(affinity.lookup('client', 50), undefined)
    affinity.timeoutMs = 1000
    t.equal(affinity.lookup('client', 500), 'a')
  })

  t.test('beyond its capacity the least recently used goes', async t => {
    const affinity = new Affinity(100, 2)
    affinity.remember('one', 'a', 0)
    affinity.remember('two', 'a', 1)
    affinity.remember('one', 'a', 2)
    affinity.remember('three', 'a', 3)
    t.same(
      ['one', 'two', 'three'].map(client => affinity.lookup(client, 3)),
      ['a', undefined, 'a'],
    )
  })

  t.test('holds 65536 clients by default', async t => {
    const affinity = new Affinity(1e9)
    for (let i = 0; i < 70_000; i++) affinity.remember(`client ${i}`, 'a', i)
    t.equal(affinity.size, 65_536)
    t.equal(affinity.lookup('client 4463', 70_000), undefined)
    t.equal(affinity.lookup('client 4464', 70_000), 'a')
  })

  t.test('does what a list searched from end to end does', async () => {
    const client = fc.constantFrom('p', 'q', 'r', 's', 't')
    const endpoint = fc.constantFrom<string[]>('a', 'b', 'c')
    const step = fc.oneof(
      fc.record({ do: fc.constant('remember' as const), client, endpoint }),
      fc.record({ do: fc.constant('wait' as const), ms: fc.nat(60) }),
      fc.record({
        do: fc.constant('timeout' as const),
        ms: fc.integer({ min: 1, max: 90 }),
      }),
      fc.record({ do: fc.constant('retain' as const), kept: fc.uniqueArray(endpoint) }),
      fc.record({ do: fc.constant('sweep' as const) }),
    )
    const capacity = fc.integer({ min: 1, max: 4 })
    fc.assert(
      fc.property(capacity, fc.array(step, { maxLength: 50 }), (most, steps) => {
        const affinity = new Affinity(50, most)
        let model: { client: string; endpoint: string; lastUsed: number }[] = []
        let now = 0
        let timeout = 50
        for (const todo of steps) {
          if (todo.do === 'remember') {
            affinity.remember(todo.client, todo.endpoint, now)
            model = model.filter(entry => entry.client !== todo.client)
            model.push({ client: todo.client, endpoint: todo.endpoint, lastUsed: now })
            model = model.slice(-most)
          } else if (todo.do === 'wait') {
            now += todo.ms
          } else if (todo.do === 'timeout') {
            timeout = todo.ms
            affinity.timeoutMs = timeout
          } else if (todo.do === 'retain') {
            affinity.retain(new Set(todo.kept))
            model = model.filter(entry => todo.kept.includes(entry.endpoint))
          } else {
            affinity.sweep(now)
            model = model.filter(entry => now - entry.lastUsed < timeout)
          }
          assert.equal(affinity.size, model.length)
          for (const who of ['p', 'q', 'r', 's', 't']) {
            const entry = model.find(candidate => candidate.client === who)
            const fresh = entry && now - entry.lastUsed < timeout
            assert.equal(affinity.lookup(who, now), fresh ? entry.endpoint : undefined)
          }
        }
      }),
      { numRuns: 500 },
    )
  })
})

const make = (affinityMs: number, ...keys: string[]) => {
  const clock = { time: 0, now: () => clock.time }
  const balancer = new Balancer<Target>(clock, () => 0)
  balancer.setAffinity(affinityMs)
  balancer.setEndpoints(targets(...keys))
  /** A connection that goes well. */
  const connect = (client: string): string | undefined => {
    const endpoint = balancer.pick(client)
    if (endpoint) balancer.connected(client, endpoint)
    return endpoint?.key
  }
  return { balancer, clock, connect }
}

t.test('balancer', async t => {
  t.test('without affinity each connection goes to the next endpoint', async t => {
    const { balancer, connect } = make(0, 'a', 'b')
    t.same([connect('p'), connect('p'), connect('p')], ['a', 'b', 'a'])
    t.equal(balancer.size, 2)
    t.equal(balancer.has('b'), true)
    t.equal(balancer.has('c'), false)
  })

  t.test('with affinity a client stays, and the round goes on for others', async t => {
    const { connect } = make(100, 'a', 'b', 'c')
    t.same(['p', 'p', 'q', 'p', 'r'].map(connect), ['a', 'a', 'b', 'a', 'c'])
  })

  t.test('each new connection makes the timeout start again', async t => {
    const { clock, connect } = make(100, 'a', 'b')
    const seen = [0, 90, 180, 270, 370].map(time => {
      clock.time = time
      return connect('p')
    })
    t.same(seen, ['a', 'a', 'a', 'a', 'b'])
  })

  t.test('a pick that never succeeds pins nobody and refreshes nothing', async t => {
    const { balancer, clock, connect } = make(100, 'a', 'b')
    t.equal(balancer.pick('p')?.key, 'a')
    t.equal(balancer.pick('p')?.key, 'b')
    t.equal(connect('p'), 'a')
    clock.time = 60
    t.equal(balancer.pick('p')?.key, 'a')
    clock.time = 120
    t.equal(balancer.pick('p')?.key, 'b')
  })

  t.test('a failed attempt at the sticky endpoint does not move the client', async t => {
    const { balancer, connect } = make(100, 'a', 'b', 'c')
    connect('p')
    t.equal(balancer.pick('p')?.key, 'a')
    t.equal(balancer.pick('p', new Set(['a']))?.key, 'b', 'the retry goes elsewhere')
    t.equal(balancer.pick('p')?.key, 'a', 'and as it failed too, a is still the one')
  })

  t.test('a client moves to the endpoint that answered in the end', async t => {
    const { balancer, connect } = make(100, 'a', 'b', 'c')
    connect('p')
    const other = balancer.pick('p', new Set(['a']))
    if (other) balancer.connected('p', other)
    t.equal(connect('p'), 'b')
  })

  t.test('nothing is picked when all have been tried', async t => {
    const { balancer, connect } = make(100, 'a')
    connect('p')
    t.equal(balancer.pick('p', new Set(['a'])), undefined)
  })

  t.test('affinity ends with its endpoint, even if that comes back', async t => {
    const { balancer, connect } = make(100, 'a', 'b')
    connect('p')
    connect('q')
    balancer.setEndpoints(targets('b'))
    balancer.setEndpoints(targets('b', 'a'))
    t.equal(connect('q'), 'b', 'one that stayed keeps its clients')
    t.equal(balancer.pick('p')?.key, 'b')
    t.equal(balancer.pick('p')?.key, 'a', 'p goes by turns again')
  })

  t.test('success on an endpoint that has gone meanwhile is not kept', async t => {
    const { balancer } = make(100, 'a', 'b')
    const gone = balancer.pick('p')
    balancer.setEndpoints(targets('b', 'c'))
    if (gone) balancer.connected('p', gone)
    balancer.setEndpoints(targets('b', 'c', 'a'))
    t.equal(balancer.pick('p')?.key, 'b')
  })

  t.test('switching affinity off forgets the clients', async t => {
    const { balancer, connect } = make(100, 'a', 'b')
    connect('p')
    balancer.setAffinity(0)
    connect('p')
    balancer.setAffinity(100)
    t.equal(connect('q'), 'a')
    t.equal(connect('p'), 'b', 'as a new client')
  })

  t.test('a changed affinity timeout counts at once', async t => {
    const { balancer, clock, connect } = make(100, 'a', 'b')
    connect('p')
    balancer.setAffinity(1000)
    clock.time = 500
    t.equal(connect('p'), 'a')
    balancer.setAffinity(10)
    clock.time = 520
    t.equal(connect('p'), 'b')
  })

  t.test('a sticky client gets the newest object of its endpoint', async t => {
    const { balancer, connect } = make(100, 'a', 'b')
    connect('p')
    const newer = targets('a', 'b')
    balancer.setEndpoints(newer)
    t.equal(balancer.pick('p'), newer[0])
  })

  t.test('sweeping frees expired clients and leaves the others', async t => {
    const { balancer, clock, connect } = make(100, 'a', 'b')
    connect('p')
    clock.time = 60
    connect('q')
    clock.time = 120
    balancer.sweep()
    balancer.setAffinity(1000)
    t.equal(connect('q'), 'b')
    t.equal(balancer.pick('p')?.key, 'a', 'forgotten: next in turn')
    t.equal(balancer.pick('p')?.key, 'b')
  })
})
