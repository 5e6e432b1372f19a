import * as fc from 'fast-check'
import t from 'tap'
import { dueAfter } from '../../src/relay/arrival-rate.ts'
import { newSharedRate, SharedRate } from '../../src/relay/connection-limiter.ts'

t.test('a second may have so many at once, and then they come evenly', async t => {
  for (const perSecond of [1, 3, 7, 10, 300, 999, 100_000]) {
    let due = 0
    let taken = 0
    const come = (now: number): void => {
      const after = dueAfter(due, now, perSecond)
      if (after === undefined) return
      due = after
      taken += 1
    }
    const start = 987_654_321.123
    for (let i = 0; i < 2 * perSecond; i += 1) come(start)
    t.equal(taken, perSecond, `${perSecond} at once`)
    const most = Math.min(perSecond, 1000)
    for (let i = 1; i <= most; i += 1)
      for (let again = 0; again < 3; again += 1) come(start + (i * 1000) / perSecond)
    t.equal(taken, perSecond + most, 'one each time that one is due')
    come(start + 10_000)
    t.equal(taken, perSecond + most + 1)
  }
})

t.test('in no stretch of time are there more than that', async () => {
  const gaps = fc.array(fc.double({ min: 0, max: 400, noNaN: true }), { maxLength: 60 })
  fc.assert(
    fc.property(gaps, fc.integer({ min: 1, max: 20 }), (waits, perSecond) => {
      let [due, now] = [0, 1e6]
      const taken: number[] = []
      for (const wait of waits) {
        now += wait
        const after = dueAfter(due, now, perSecond)
        if (after === undefined) continue
        due = after
        taken.push(now)
      }
      return taken.every((from, i) =>
        taken
          .slice(i)
          .every((to, k) => k + 1 <= perSecond + ((to - from) / 1000) * perSecond + 0.01),
      )
    }),
  )
})

t.test('several share one rate', async t => {
  const one = newSharedRate()
  const two = new SharedRate(one.memory)
  const now = 5e9
  let taken = 0
  for (let i = 0; i < 50; i += 1)
    for (const each of [one, two]) if (each.take(20, now)) taken += 1
  t.equal(taken, 20)
  t.ok(two.take(20, now + 50))
  t.notOk(one.take(20, now + 51))
  t.ok(one.take(1000, now + 51), 'another rate counts at once')
  t.notOk(one.take(1, now + 51))
})
