import t from 'tap'
import { Maglev, maglevSlots, maglevTable } from '../../src/balance/maglev.ts'

interface Target {
  readonly key: string
  readonly tier?: number
  weight?: number
}

const targets = (count: number): Target[] =>
  Array.from({ length: count }, (_, i) => ({ key: `10.0.${i >> 8}.${i & 255}:5432` }))

const poolOf = (list: readonly Target[]): Maglev<Target> => {
  const pool = new Maglev<Target>()
  pool.setEndpoints(list)
  return pool
}

const clients = Array.from({ length: 20_000 }, (_, i) => `192.0.${i >> 8}.${i & 255}`)

const choices = (pool: Maglev<Target>): (string | undefined)[] =>
  clients.map(client => pool.next(undefined, undefined, client)?.key)

t.test('a client has the same endpoint in any order of the list', async t => {
  const list = targets(7)
  const one = choices(poolOf(list))
  t.strictSame(choices(poolOf(list.toReversed())), one)
  t.strictSame(choices(poolOf(list)), one, 'and in another process')
  // What a former version has said: a node that is updated must not move clients.
  t.strictSame(one.slice(0, 4), [
    '10.0.0.2:5432',
    '10.0.0.6:5432',
    '10.0.0.5:5432',
    '10.0.0.4:5432',
  ])
})

for (const count of [2, 3, 10, 100, 500])
  t.test(`of ${count} endpoints each has its share of the slots`, async t => {
    const places = targets(count).map(({ key }, index) => ({ index, key, weight: 1 }))
    const slots = Array<number>(count).fill(0)
    for (const index of maglevTable(places)) slots[index] = (slots[index] ?? 0) + 1
    const most = Math.max(...slots)
    const least = Math.min(...slots)
    t.ok(most - least <= 1, `${least} to ${most} of ${maglevSlots}`)
  })

for (const count of [3, 10, 50])
  t.test(`one of ${count} goes: hardly another's client moves`, async t => {
    const list = targets(count)
    const before = choices(poolOf(list))
    const gone = list[1]?.key
    const pool = poolOf(list)
    pool.setEndpoints(list.filter(({ key }) => key !== gone))
    const moved = choices(pool).filter(
      (key, i) => before[i] !== gone && key !== before[i],
    ).length
    t.ok(moved <= clients.length / 100, `${moved} of ${clients.length}`)
    t.notOk(choices(pool).includes(gone))
    pool.setEndpoints(list)
    t.strictSame(choices(pool), before, 'and all are back when it is')
  })

t.test('while one is passed over only its clients have others, spread', async t => {
  const pool = poolOf(targets(5))
  const before = choices(pool)
  const down = pool.all[2]
  const now = clients.map(client => pool.next(undefined, one => one === down, client))
  const heirs = new Map<string, number>()
  let moved = 0
  for (const [i, endpoint] of now.entries()) {
    if (before[i] !== down?.key) moved += endpoint?.key === before[i] ? 0 : 1
    else heirs.set(endpoint?.key ?? '', (heirs.get(endpoint?.key ?? '') ?? 0) + 1)
  }
  t.equal(moved, 0)
  t.equal(heirs.size, 4)
  for (const count of heirs.values()) t.ok(count > 500, `${count}`)
  t.equal(pool.next({ has: () => true }, undefined, 'x'), undefined)
})

t.test('weights count, also when they change', async t => {
  const list = targets(3)
  const pool = poolOf(list)
  const shareOf = (key: string | undefined): number =>
    choices(pool).filter(one => one === key).length / clients.length
  const [first, second] = list
  if (first === undefined || second === undefined) throw new Error('there are three')
  first.weight = 8
  pool.setEndpoints(list)
  t.ok(Math.abs(shareOf(first.key) - 0.8) < 0.02, `${shareOf(first.key)}`)
  second.weight = 0
  pool.setEndpoints(list)
  t.equal(shareOf(second.key), 0)
  pool.setEndpoints([second])
  t.equal(shareOf(second.key), 1, 'when there is no other')
})

t.test('tiers are used in their order', async t => {
  const pool = poolOf([{ key: 'a', tier: 1 }, { key: 'b' }, { key: 'c', tier: 1 }])
  t.equal(pool.next(undefined, undefined, 'x')?.key, 'b')
  t.equal(pool.next({ has: key => key === 'b' }, undefined, 'x')?.key.length, 1)
  t.equal(poolOf([]).next(), undefined)
})
