import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { RoundRobin } from '../../src/balance/round-robin.ts'

interface Target {
  readonly key: string
  readonly weight?: number
  readonly tier?: number
}

const roundOf = (list: readonly Target[], random = () => 0): RoundRobin<Target> => {
  const round = new RoundRobin<Target>(random)
  round.setEndpoints(list)
  return round
}

const weighted = (weights: readonly number[]): Target[] =>
  weights.map((weight, i) => ({ key: `${i}`, weight }))

const keys = (round: RoundRobin<Target>, turns: number, skip?: ReadonlySet<string>) =>
  Array.from({ length: turns }, () => round.next(skip)?.key ?? '').join('')

t.test('turns by weight', async t => {
  t.test('are spread', async t => {
    const round = roundOf(weighted([5, 1, 1]))
    t.equal(keys(round, 14), '00102000010200')
  })

  t.test('equal weights are turns as without any', async t => {
    t.equal(keys(roundOf(weighted([7, 7, 7])), 7), '0120120')
    t.equal(keys(roundOf(weighted([0, 0])), 3), '010')
    t.equal(keys(roundOf([{ key: 'a' }, { key: 'b', weight: 1 }]), 3), 'aba')
  })

  t.test('weight 0 is for when all others are passed over', async t => {
    const round = roundOf(weighted([2, 0, 1, 0]))
    t.match(keys(round, 30), /^[02]+$/)
    t.equal(keys(round, 4, new Set(['0', '2'])), '1313')
    t.match(keys(round, 30), /^[02]+$/)
  })

  t.test('one that rests comes back to its share, and has missed turns', async t => {
    const round = roundOf(weighted([65_535, 1, 1]))
    keys(round, 1000)
    t.match(keys(round, 1000, new Set(['0'])), /^(12|21)+$/, 'the others by turns')
    t.match(keys(round, 1000), /^[12]?0+$/)
  })

  t.test('tiers have turns of their own', async t => {
    const round = roundOf([
      { key: 'a', weight: 2, tier: 0 },
      { key: 'b', weight: 1, tier: 0 },
      { key: 'c', weight: 100, tier: 1 },
    ])
    t.equal(keys(round, 6), 'abaaba')
    t.equal(keys(round, 2, new Set(['a', 'b'])), 'cc')
  })

  t.test('proxies that start together do not all begin with the heaviest', async t => {
    const firsts = Array.from({ length: 300 }, (_, i) =>
      roundOf(weighted([2, 1]), () => i / 300).next(),
    )
    const ofLight = firsts.filter(one => one?.key === '1').length
    t.ok(ofLight > 80 && ofLight < 120, `${ofLight} of 300`)
  })

  t.test('changes leave what has been had as it is', async t => {
    const round = roundOf(weighted([3, 1]))
    t.equal(keys(round, 1), '0')
    round.setEndpoints([...weighted([3, 1]), { key: '2', weight: 1 }])
    t.equal(round.next()?.key, '1', 'its turn is not put off')
    round.setEndpoints(weighted([3, 3]))
    t.equal(keys(round, 2).split('').toSorted().join(''), '01')
  })

  const someWeights = fc.array(fc.integer({ min: 0, max: 40 }), {
    minLength: 1,
    maxLength: 8,
  })
  const start = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

  t.test('each has its share of each round, wherever that begins', async () => {
    fc.assert(
      fc.property(someWeights, start, (weights, random) => {
        fc.pre(weights.some(weight => weight > 0))
        const total = weights.reduce((sum, weight) => sum + weight, 0)
        const round = roundOf(weighted(weights), () => random)
        for (let turn = 0; turn < 3; turn += 1) {
          const had = new Map<string, number>()
          for (let i = 0; i < total; i += 1) {
            const key = round.next()?.key ?? ''
            had.set(key, (had.get(key) ?? 0) + 1)
          }
          for (const [i, weight] of weights.entries())
            assert.ok(Math.abs((had.get(`${i}`) ?? 0) - weight) <= 1, `${i}`)
        }
      }),
      { numRuns: 200 },
    )
  })

  t.test('whatever is passed over, none has much more than its share', async () => {
    const step = fc.record({
      skip: fc.uniqueArray(fc.nat(7), { maxLength: 6 }),
      turns: fc.integer({ min: 1, max: 60 }),
    })
    fc.assert(
      fc.property(someWeights, fc.array(step, { maxLength: 8 }), (weights, steps) => {
        const round = roundOf(weighted(weights))
        const due = weights.map(() => 0)
        for (const { skip, turns } of steps) {
          const passed = new Set(skip.map(String))
          const open = weights.map((weight, i) => (passed.has(`${i}`) ? 0 : weight))
          const total = open.reduce((sum, weight) => sum + weight, 0)
          for (let turn = 0; turn < turns; turn += 1) {
            const chosen = round.next(passed)
            assert.equal(
              chosen === undefined,
              weights.every((_, i) => passed.has(`${i}`)),
            )
            if (chosen === undefined || total === 0) continue
            assert.ok(!passed.has(chosen.key) && open[Number(chosen.key)] !== 0)
            for (const [i, weight] of open.entries()) due[i]! += weight / total
            due[Number(chosen.key)]! -= 1
          }
        }
        const differ = new Set(weights).size > 1
        if (differ) for (const one of due) assert.ok(Math.abs(one) < weights.length)
      }),
      { numRuns: 200 },
    )
  })
})
