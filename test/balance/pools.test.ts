import t from 'tap'
import { LeastConnections, RandomChoice } from '../../src/balance/random-choice.ts'

interface Target {
  readonly key: string
  weight?: number
  connections?: number
}

/** The same at each run (mulberry32). */
const seeded = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const named = (count: number): Target[] =>
  Array.from({ length: count }, (_, i) => ({ key: `${i}`, connections: 0 }))

const tally = (times: number, next: () => Target | undefined): Map<string, number> => {
  const counts = new Map<string, number>()
  for (let i = 0; i < times; i += 1) {
    const key = next()?.key ?? 'none'
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}

const near = (count: number | undefined, wanted: number): boolean =>
  Math.abs((count ?? 0) - wanted) < wanted * 0.1 + 1

t.test('random: each has its share by weight', async t => {
  const pool = new RandomChoice<Target>(seeded(1))
  pool.setEndpoints(named(4))
  for (const count of tally(8000, () => pool.next()).values()) t.ok(near(count, 2000))
  pool.setEndpoints([{ key: 'a', weight: 3 }, { key: 'b' }, { key: 'c', weight: 0 }])
  const counts = tally(8000, () => pool.next())
  t.ok(
    near(counts.get('a'), 6000) && near(counts.get('b'), 2000),
    JSON.stringify([...counts]),
  )
  t.equal(counts.get('c'), undefined)
  const skip = { has: (key: string) => key !== 'c' }
  t.equal(pool.next(skip)?.key, 'c', 'when all others are passed over')
  t.equal(pool.next({ has: () => true }), undefined)
})

t.test('random: of thousands the only one left is found', async t => {
  const pool = new RandomChoice<Target>(seeded(2))
  pool.setEndpoints(named(3000))
  t.equal(pool.next(undefined, ({ key }) => key !== '1234')?.key, '1234')
})

t.test('weights may be others at each turn', async t => {
  let weight = 0.1
  const weightOf = ({ key }: Target): number => (key === '0' ? weight : 1)
  const pool = new RandomChoice<Target>(seeded(3), weightOf)
  pool.setEndpoints(named(2))
  t.ok(near(tally(11_000, () => pool.next()).get('0'), 1000))
  weight = 1
  t.ok(near(tally(4000, () => pool.next()).get('0'), 2000))
})

for (const count of [2, 3, 8, 9, 50])
  t.test(`least connections: ${count} endpoints fill up evenly`, async t => {
    const pool = new LeastConnections<Target>(seeded(count))
    const list = named(count)
    pool.setEndpoints(list)
    for (let i = 0; i < count * 40; i += 1) {
      const one = pool.next()
      if (one !== undefined) one.connections = (one.connections ?? 0) + 1
    }
    const counts = list.map(({ connections = 0 }) => connections)
    const spread = Math.max(...counts) - Math.min(...counts)
    // Two choices are off by the logarithm of the logarithm of their number, all are off by one.
    t.ok(spread <= (count <= 8 ? 1 : 5), counts.join(' '))
  })

t.test('least connections: a weight of 3 bears three times as many', async t => {
  const pool = new LeastConnections<Target>(seeded(5))
  const list: Target[] = [{ key: 'a', weight: 3 }, { key: 'b' }, { key: 'c', weight: 0 }]
  pool.setEndpoints(list)
  for (let i = 0; i < 400; i += 1) {
    const one = pool.next()
    if (one !== undefined) one.connections = (one.connections ?? 0) + 1
  }
  t.strictSame(
    list.map(({ connections = 0 }) => connections),
    [300, 100, 0],
  )
})
