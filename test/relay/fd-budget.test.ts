import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { FdBudget } from '../../src/relay/fd-budget.ts'
import { openFileLimit } from '../../src/relay/fd-limit.ts'
import { setSoftLimit, softLimit } from '../support/descriptors.ts'

const budgetOf = (limit: number, reserved: number) => {
  const told: boolean[] = []
  return { told, budget: new FdBudget(limit, reserved, out => void told.push(out)) }
}

const inWords = () => (openFileLimit() === Infinity ? 'unlimited' : `${openFileLimit()}`)

/** How many descriptors there are, and counting them. */
t.test('descriptors', async t => {
  t.test('FdBudget', async t => {
    t.test('is exhausted when one more connection would not fit', async t => {
      const { budget, told } = budgetOf(110, 10)
      t.ok(budget.take(98))
      t.strictSame([budget.exhausted, budget.available], [false, 2])
      t.ok(budget.take(1))
      t.strictSame([budget.exhausted, budget.used], [true, 99])
      t.notOk(budget.take(2), 'nothing is taken when not all is there')
      t.equal(budget.used, 99)
      t.ok(budget.take(1))
      t.strictSame(told, [true])
    })

    t.test('is comfortable again only with a sixteenth free', async t => {
      const { budget, told } = budgetOf(170, 10)
      budget.take(160)
      budget.release(9)
      t.strictSame(told, [true])
      budget.release(1)
      t.strictSame(told, [true, false])
    })

    t.test(
      'leaves room for two connections where less is left than reserved',
      async t => {
        const { budget } = budgetOf(20, 64)
        t.strictSame(
          [budget.take(2), budget.take(2), budget.take(1)],
          [true, true, false],
        )
      },
    )

    t.test('listening sockets leave a quarter to connections', async t => {
      const { budget, told } = budgetOf(110, 10)
      const taken = Array.from({ length: 100 }, () => budget.takeListening())
      t.strictSame([taken.filter(Boolean).length, budget.used], [75, 75])
      t.strictSame(told, [], 'accepting goes on')
      budget.releaseListening()
      t.ok(budget.takeListening())
      t.ok(budget.take(25), 'the rest is for connections')
      t.notOk(budgetOf(110, 10).budget.take(101))
    })

    t.test('never runs out where there is no limit', async t => {
      const { budget, told } = budgetOf(Infinity, 64)
      t.ok(budget.take(1e6))
      t.ok(budget.takeListening())
      budget.release(1e6)
      budget.releaseListening()
      t.strictSame(told, [])
    })

    t.test('keeps its books whatever is taken and given back', async () => {
      const step = fc.record({
        take: fc.boolean(),
        count: fc.integer({ min: 1, max: 3 }),
      })
      const sizes = fc.integer({ min: 0, max: 200 })
      fc.assert(
        fc.property(sizes, fc.array(step, { maxLength: 300 }), (limit, steps) => {
          const { budget, told } = budgetOf(limit, 8)
          const room = Math.max(limit - 8, 4)
          const held: number[] = []
          let sum = 0
          for (const { take, count } of steps) {
            const before = budget.exhausted
            if (take) {
              const fits = sum + count <= room
              assert.equal(budget.take(count), fits)
              if (fits) held.push(count)
              if (fits) sum += count
              if (!fits || room - sum < 2)
                assert.ok(budget.exhausted, 'it is told in time')
              assert.ok(budget.exhausted || !before, 'taking brings no comfort')
            } else {
              const back = held.shift() ?? 0
              sum -= back
              budget.release(back)
              if (room - sum >= 64) assert.ok(!budget.exhausted, 'a release ends it')
              if (before && room - sum < 2) assert.ok(budget.exhausted, 'not yet')
            }
            assert.equal(budget.used, sum)
            assert.ok(budget.available >= 0, `${budget.available} are left`)
            assert.equal(told.at(-1) ?? false, budget.exhausted)
          }
          for (const [i, one] of told.entries()) assert.equal(one, i % 2 === 0, 'in turn')
          for (const count of held) budget.release(count)
          assert.strictEqual(budget.used, 0)
          assert.ok(!budget.exhausted || held.length === 0, 'all came back')
        }),
      )
    })
  })

  t.test('openFileLimit is the soft limit that a shell of this process has', async t => {
    t.equal(inWords(), softLimit())
    const before = softLimit()
    try {
      setSoftLimit('1000')
    } catch {
      return t.comment('no prlimit to make soft and hard differ with')
    }
    t.teardown(() => setSoftLimit(before))
    t.strictSame([inWords(), softLimit()], ['1000', '1000'])
  })
})
