import { setImmediate as turn } from 'node:timers/promises'
import * as fc from 'fast-check'
import t from 'tap'
import { KeyedList } from '../../src/util/keyed-list.ts'
import { listDiff, listHunks, forEachYielding } from '../../src/util/list-diff.ts'
import { FakeClock } from '../support/fake-clock.ts'

t.test('listHunks', async t => {
  const many = Array.from({ length: 1000 }, (_, i) => i)
  const cases: [why: string, after: number[], hunks: number[][]][] = [
    ['nothing', many, []],
    ['one replaced', many.with(500, -1), [[500, 501, 500, 501]]],
    [
      'two replaced, far apart',
      many.with(0, -1).with(999, -2),
      [
        [0, 1, 0, 1],
        [999, 1000, 999, 1000],
      ],
    ],
    ['one gone', many.toSpliced(7, 1), [[7, 8, 7, 7]]],
    ['one more', many.toSpliced(7, 0, -1), [[7, 7, 7, 8]]],
    ['one at the end', [...many, -1], [[1000, 1000, 1000, 1001]]],
    [
      'one gone here, one more there',
      many.toSpliced(900, 0, -1).toSpliced(7, 1),
      [
        [7, 8, 7, 7],
        [900, 900, 899, 900],
      ],
    ],
    ['all gone', [], [[0, 1000, 0, 0]]],
  ]
  for (const [why, after, expected] of cases)
    t.strictSame(
      listHunks(many, after).map(hunk => hunk.before.concat(hunk.after)),
      expected,
      why,
    )

  t.test('between the hunks the lists are the same', async t => {
    const list = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 60 })
    fc.assert(
      fc.property(list, list, (a, b) => {
        let [i, j] = [0, 0]
        const same = (to: number): boolean => {
          while (i < to) if (a[i++] !== b[j++]) return false
          return true
        }
        for (const { before, after } of listHunks(a, b)) {
          if (!same(before[0]) || j !== after[0]) return false
          ;[i, j] = [before[1], after[1]]
        }
        return same(a.length) && j === b.length
      }),
    )
    t.pass()
  })
})

t.test('listDiff gives what lies in the hunks', async t => {
  t.strictSame(listDiff([1, 2, 3, 4], [1, 9, 4]), { before: [2, 3], after: [9] })
  t.strictSame(listDiff([1, 1], [1, 1, 1]), { before: [], after: [1] })
})

t.test(
  'forEachYielding lets others have their turn, and only when it is time',
  async t => {
    const clock = new FakeClock()
    let turns = 0
    const over = new AbortController()
    const count = async (): Promise<void> => {
      for (; !over.signal.aborted; turns += 1) await turn()
    }
    const counting = count()
    const took: number[] = []
    await forEachYielding(
      [1, 1, 1, 1, 1, 1, 1],
      ms => {
        took.push(turns)
        clock.advance(ms)
      },
      clock,
    )
    over.abort()
    await counting
    t.equal(new Set(took).size, 3, 'three to a turn, and one')
    t.strictSame(took.slice(0, 3), [0, 0, 0])
  },
)

t.test('forEachYielding waits for each, and stops at what one throws', async t => {
  const did: number[] = []
  await t.rejects(
    forEachYielding([1, 2, 3], async n => {
      await turn()
      if (n === 2) throw new Error('two')
      did.push(n)
    }),
    { message: 'two' },
  )
  t.strictSame(did, [1])
})

t.test('KeyedList', async t => {
  interface Item {
    readonly key: string
    readonly value: number
  }
  const item = (key: string, value = 0): Item => ({ key, value })
  const listOf = () => new KeyedList<Item, { readonly text: string }>(({ key }) => key)
  const make = ({ key, value }: Item) => ({ text: `${key}${value}` })

  t.test('makes only of what is new or another object', async t => {
    const list = listOf()
    const [a, b, c] = [item('a'), item('b'), item('c')]
    const first = await list.update([a, b, c], make)
    const gone: string[] = []
    const made: string[] = []
    const second = await list.update(
      [c, item('b', 1), a, item('d')],
      (one, before) => {
        made.push(`${one.key} was ${before?.text}`)
        return make(one)
      },
      { gone: key => void gone.push(key) },
    )
    t.strictSame(made, ['b was b0', 'd was undefined'])
    t.strictSame(gone, [])
    t.strictSame([second[0] === first[2], second[2] === first[0]], [true, true])
    t.strictSame(
      second.map(({ text }) => text),
      ['c0', 'b1', 'a0', 'd0'],
    )
    await list.update([a], make, { gone: key => void gone.push(key) })
    t.strictSame(gone.toSorted(), ['b', 'c', 'd'])
  })

  t.test('goes on after a failure', async t => {
    const list = listOf()
    const all = [item('a'), item('b')]
    let broken = true
    const fails = (one: Item) => {
      if (broken && one.key === 'b') throw new Error('broken')
      return make(one)
    }
    await t.rejects(list.update(all, fails), { message: 'broken' })
    broken = false
    t.strictSame(await list.update(all, fails), [{ text: 'a0' }, { text: 'b0' }])
  })

  t.test('what a failed update made is told of as gone when it goes', async t => {
    const list = listOf()
    const [a, b] = [item('a'), item('b')]
    const gone: string[] = []
    const told = { gone: (key: string) => void gone.push(key) }
    const failsAt = (key: string) => (one: Item) => {
      if (one.key === key) throw new Error('broken')
      return make(one)
    }
    await t.rejects(list.update([a, b], failsAt('b')), { message: 'broken' })
    await list.update([], make, told)
    t.strictSame(gone, ['a'])
    await list.update([a], make)
    await t.rejects(list.update([b], failsAt('b'), told), { message: 'broken' })
    t.strictSame(gone, ['a', 'a'])
    t.strictSame(list.changed([a]), [a], 'after it went it is made anew')
    t.strictSame(await list.update([a], make, told), [{ text: 'a0' }])
    t.strictSame(gone, ['a', 'a'])
  })

  t.test('answers what a list made anew would, whatever comes and goes', async () => {
    const lists = fc.array(
      fc.uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.nat(2)), {
        selector: ([key]) => key,
      }),
      { maxLength: 6 },
    )
    const known = new Map<string, Item>()
    const same = (key: string, value: number): Item => {
      const one = known.get(`${key}${value}`) ?? item(key, value)
      known.set(`${key}${value}`, one)
      return one
    }
    await fc.assert(
      fc.asyncProperty(lists, fc.boolean(), async (steps, all) => {
        const list = listOf()
        for (const step of steps) {
          const items = step.map(([key, value]) => same(key, value))
          const got = await list.update(items, make, { all })
          if (got.map(({ text }) => text).join() !== items.map(i => make(i).text).join())
            return false
        }
        return true
      }),
    )
  })
})
