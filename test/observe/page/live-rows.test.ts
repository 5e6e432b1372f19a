import t from 'tap'
import { LiveRows } from '../../../src/observe/page/live-rows.ts'

const none = [0, 0, 0, 0, 0, 0]
const some = [1, 2, 0, 0, 30, 40]

/** Rows of one look, by identity; the text is the identity's. */
const look = (
  rows: LiveRows,
  number: number,
  seen: Readonly<Record<string, readonly number[]>>,
) => {
  for (const [identity, counts] of Object.entries(seen))
    rows.see(number, identity, JSON.stringify(identity), counts)
  rows.seen(number)
}

const told = (
  rows: LiveRows,
  since: number,
  number: number,
): readonly (readonly [string, unknown])[] =>
  [...rows.changes(since, number)].map(event => {
    const [, name = '', json = ''] = /^event: (\w+)\ndata: (.*)\n\n$/.exec(event) ?? []
    return [name, JSON.parse(json)]
  })

t.test('the whole first, then what has changed', async t => {
  const rows = new LiveRows()
  look(rows, 1, { web: some, db: none })
  t.strictSame(told(rows, 0, 1), [
    [
      'rows',
      [
        [0, 'web'],
        [1, 'db'],
      ],
    ],
    ['counts', [0, ...some, 1, ...none]],
  ])
  look(rows, 2, { web: some, db: some })
  t.strictSame(told(rows, 1, 2), [['counts', [1, ...some]]])
  look(rows, 3, { web: some, db: some })
  t.strictSame(told(rows, 2, 3), [])
})

t.test('a row that is made of the same objects is still there, and not told', async t => {
  const rows = new LiveRows()
  const [port, listener] = [{}, {}]
  t.notOk(rows.isSame(1, 'web', [port, listener]))
  rows.see(1, 'web', '"web"', some, [port, listener])
  rows.see(1, 'db', '"db"', some)
  rows.seen(1)
  t.notOk(rows.isSame(2, 'web', [port, { ...listener }]))
  t.notOk(rows.isSame(2, 'db', []), 'of one it is not known')
  t.ok(rows.isSame(2, 'web', [port, listener]))
  rows.seen(2)
  t.strictSame(told(rows, 1, 2), [['gone', [1]]])
  t.ok(rows.isSame(3, 'web', [port, listener]))
  t.notOk(rows.isSame(3, 'db', [port, listener]), 'who is gone is not the same')
})

t.test('one who was told long ago is told all that has changed since, once', async t => {
  const rows = new LiveRows()
  look(rows, 1, { web: none })
  look(rows, 2, { web: [9, 9, 9, 9, 9, 9] })
  look(rows, 3, { web: some })
  t.strictSame(told(rows, 1, 3), [['counts', [0, ...some]]])
})

t.test(
  'what a look has changed that is still under way is told with that look',
  async t => {
    const rows = new LiveRows()
    look(rows, 1, { web: none })
    rows.see(2, 'web', '"other"', some)
    t.strictSame(told(rows, 0, 1), [])
    rows.seen(2)
    t.strictSame(told(rows, 1, 2), [
      ['rows', [[0, 'other']]],
      ['counts', [0, ...some]],
    ])
  },
)

t.test('who is gone leaves a place, which another takes under its own name', async t => {
  const rows = new LiveRows()
  look(rows, 1, { web: some, db: some })
  look(rows, 2, { db: some })
  t.strictSame(told(rows, 1, 2), [['gone', [0]]])
  look(rows, 3, { db: some, cache: none })
  const cache = [
    ['rows', [[0, 'cache']]],
    ['counts', [0, ...none]],
  ]
  t.strictSame(told(rows, 2, 3), cache)
  t.strictSame(told(rows, 1, 3), cache, 'also where it was not told of the end')
  t.strictSame(told(rows, 0, 3).flatMap(([, all]) => all as unknown[]).length, 2 + 14)
})

t.test('many rows come in pieces', async t => {
  const rows = new LiveRows()
  look(
    rows,
    1,
    Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`service ${i}`, none])),
  )
  const pieces = [...rows.changes(0, 1)]
  t.ok(pieces.length > 4)
  t.ok(pieces.every(piece => piece.length < 50_000))
  const names = told(rows, 0, 1).flatMap(([name, all]) =>
    name === 'rows' ? (all as unknown[]) : [],
  )
  t.equal(names.length, 10_000)
})

t.test('what was of late is told when there is another step of it', async t => {
  const rows = new LiveRows()
  look(rows, 1, { web: some, db: some })
  rows.seePasts(1, new Map([['db', '[0,0,2,1]']]))
  t.strictSame(told(rows, 0, 1).slice(2), [['past', [[1, [0, 0, 2, 1]]]]])
  look(rows, 2, { web: some, db: some })
  rows.seePasts(2, new Map([['db', '[0,0,2,1]']]))
  t.strictSame(told(rows, 1, 2), [])
  rows.seePasts(3, new Map())
  t.strictSame(told(rows, 2, 3), [['past', [[1, []]]]], 'it is over')
  rows.seePasts(3, new Map([['db', '[1,1]']]))
  look(rows, 4, { web: some })
  look(rows, 5, { web: some, cache: some })
  rows.seePasts(5, new Map([['db', '[1,1]']]))
  const [, , ...more] = told(rows, 0, 5)
  t.strictSame(more, [], 'who takes a place has not the past of who had it')
})
