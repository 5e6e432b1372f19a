import t from 'tap'
import {
  ConnectionIds,
  connectionsPage,
  serialsOf,
  threadOf,
  type ConnectionsQuery,
} from '../../src/relay/open-connections.ts'

t.test('an id is of one thread since its start', async t => {
  const ids = new ConnectionIds(3, 1_700_000_000_000)
  const [one, two] = [ids.idOf(ids.next()), ids.idOf(ids.next())]
  t.not(one, two)
  t.equal(threadOf(one), 3)
  t.equal(ids.serialOf(two), 2)
  t.strictSame([...serialsOf(ids, [two, two, 'x', '', `${two}x`])], [2])
  for (const other of [
    new ConnectionIds(3, 1_700_000_000_001),
    new ConnectionIds(33, 1_700_000_000_000),
  ])
    t.equal(other.serialOf(one), undefined)
  for (const bad of ['3', '3-', `${one} `, `${one}.0`, one.replace(/1$/, '0'), 'a-b-1'])
    t.equal(ids.serialOf(bad), undefined, bad)
})

t.test('pages, of which each has a bound', async t => {
  const ids = new ConnectionIds(1)
  let described = 0
  /** All pages, and how much was done for the longest. */
  const read = (all: Iterable<number>, query: ConnectionsQuery) => {
    const found: string[] = []
    let [counted, pages, most] = [0, 0, 0]
    let after: string | undefined
    do {
      described = 0
      const page = connectionsPage(
        all,
        ids,
        { ...query, after },
        serial => ({ serial, listener: serial % 2 === 0 ? 'even' : 'odd' }),
        () => {
          described += 1
          return {
            client: '',
            endpoint: '',
            state: 'open' as const,
            ageMs: 0,
            bytesToBackend: 0,
            bytesToClient: 0,
          }
        },
      )
      found.push(...page.connections.map(({ id }) => id))
      counted += page.counted
      pages += 1
      most = Math.max(most, described)
      after = page.next
    } while (after !== undefined)
    return { found, counted, pages, most }
  }
  const many = new Set(Array.from({ length: 50_000 }, (_, i) => i + 1))
  const all = read(many, {})
  t.equal(new Set(all.found).size, 50_000)
  t.ok(all.most <= 100)
  t.equal(read(many, { listeners: ['odd'] }).found.length, 25_000)
  t.strictSame(read(many, { listeners: ['odd'], limit: 0 }), {
    found: [],
    counted: 25_000,
    pages: 3,
    most: 0,
  })
  t.match(read(many, { listeners: ['none'] }), { found: [], counted: 0, pages: 3 })
  t.match(read([], {}), { found: [], pages: 1 })
  const few = read(many, { listeners: ['odd'], limit: 20 })
  t.match(few, { counted: 25_000 - 3 * 20, pages: 3, most: 20 }, 'of each page so many')
})
