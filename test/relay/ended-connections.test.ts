import t from 'tap'
import type { Cause } from '../../src/relay/cause.ts'
import {
  EndedConnections,
  type EndedQuery,
  leaseMs,
} from '../../src/relay/ended-connections.ts'
import { FakeClock } from '../support/fake-clock.ts'

const setUp = () => {
  const clock = new FakeClock()
  const kept = new EndedConnections(clock, 1)
  let made = 0
  /** Connections end, as a relay tells of it; how many records that took. */
  const end = (
    count: number,
    {
      listener = 'a',
      cause = '--',
      address = '10.1.2.3',
      named = () => address,
    }: {
      listener?: string
      cause?: Cause
      address?: string
      named?: () => string
    } = {},
  ): number => {
    const before = made
    for (let i = 0; i < count; i += 1) {
      const takers = kept.subscribers(listener, cause, named)
      if (takers === undefined) continue
      made += 1
      const record = {
        listener,
        client: `${address}:${made}`,
        endpoint: '',
        attempts: [],
        bytesToBackend: 0,
        bytesToClient: 0,
        dialMs: 0,
        totalMs: 0,
        cause,
        detail: '',
      }
      for (const taker of takers) taker.add(record)
    }
    return made - before
  }
  const look = (query: Partial<EndedQuery> = {}) =>
    kept.poll({
      routes: query.listeners ?? ['web'],
      listeners: ['a'],
      failed: false,
      clients: [],
      perSecond: 1000,
      ...query,
    })
  /** Looks again and again. */
  const watch = (query: Partial<EndedQuery> = {}) => {
    let { next: after } = look(query)
    return () => {
      const page = look({ ...query, after })
      after = page.next
      return page
    }
  }
  return { clock, kept, end, look, watch }
}

t.test('nothing is kept, and no record made, while nobody looks', async t => {
  const { clock, kept, end, watch } = setUp()
  const unasked = () => t.fail('its address is asked for')
  const named = () => String(unasked())
  t.equal(end(3, { named }), 0)
  t.equal(kept.isWatched, false)
  const look = watch()
  t.equal(kept.isWatched, true)
  t.equal(end(2, { named }), 2, 'of all clients: none is named')
  t.equal(end(2, { listener: 'b', named }), 0)
  t.match(look(), { ended: [{ listener: 'a' }, {}], leftOut: 0, gap: false })
  t.strictSame(look().ended, [], 'each is told once')
  clock.advance(leaseMs - 1)
  t.equal(kept.isWatched, true)
  look()
  clock.advance(leaseMs - 1)
  t.equal(kept.isWatched, true, 'from the last look on')
  t.equal(end(1), 1)
  clock.advance(1)
  t.equal(kept.isWatched, false)
  t.equal(end(1), 0)
  t.equal(clock.waiting, 0)
  t.match(look(), { ended: [], leftOut: 0, gap: true }, 'that some are lost is said')
  end(1)
  t.match(look(), { ended: [{}], leftOut: 0, gap: false })
})

t.test('what there is no room for is counted', async t => {
  const { clock, end, look, watch } = setUp()
  const all = watch()
  for (let second = 0; second < 3; second += 1) {
    t.equal(end(1000), 1000)
    clock.advance(1000)
  }
  const page = all()
  t.equal(page.ended.length, 1000)
  t.equal(page.leftOut, 2000)
  t.equal(page.ended[0]?.client, '10.1.2.3:2001', 'the newest are kept')
  t.match(all(), { ended: [], leftOut: 0 })

  end(10)
  const newest = look({ after: page.next, limit: 3 })
  t.match(newest, { leftOut: 7, gap: false })
  t.strictSame(
    newest.ended.map(({ client }) => client),
    [8, 9, 10].map(i => `10.1.2.3:${3000 + i}`),
  )
  clock.advance(1000)

  const few = watch({ perSecond: 10 })
  t.equal(end(500, { listener: 'a' }), 500, 'the other look wants them')
  t.match(few(), { leftOut: 490, gap: false })
  clock.advance(500)
  end(100)
  const after = few()
  t.equal(after.ended.length, 5)
  t.equal(after.leftOut, 95)
  t.equal(look({ perSecond: 10, after: after.next.replace(/\d+$/, '999999') }).leftOut, 0)
})

t.test('beyond what is wanted a second no record is made', async t => {
  const { end, watch } = setUp()
  const look = watch({ perSecond: 10 })
  t.equal(end(100_000), 10)
  t.match(look(), { leftOut: 99_990 })
})

t.test('looks at the same time have what each asks for', async t => {
  const { end, watch } = setUp()
  const [all, failed] = [watch(), watch({ failed: true })]
  const [four, six] = [
    watch({ clients: ['10.0.0.0/8', '192.0.2.7'] }),
    watch({ clients: ['2001:db8::/32'] }),
  ]
  const both = watch({ listeners: ['b', 'a'] })
  end(1, { cause: 'SC' })
  end(5000)
  end(1, { address: '192.0.2.7', cause: 'CD' })
  end(1, { address: '192.0.2.8' })
  end(1, { address: '2001:db8::1', listener: 'a' })
  end(1, { address: '2001:db9::1' })
  end(1, { address: '', cause: 'PR' })
  end(1, { listener: 'b', cause: 'SD' })
  const counts = ({ ended, leftOut }: ReturnType<typeof all>) => ended.length + leftOut
  t.equal(counts(all()), 5006)
  const abnormal = failed()
  t.strictSame(
    abnormal.ended.map(({ cause }) => cause),
    ['SC', 'CD', 'PR'],
    'they are not pushed out',
  )
  t.equal(abnormal.leftOut, 0)
  t.equal(counts(four()), 5002)
  t.strictSame(
    six().ended.map(({ client }) => client.replace(/:\d+$/, '')),
    ['2001:db8::1'],
  )
  t.equal(counts(both()), 5007)
})

t.test('a client has the block of its address, whatever its zone', async t => {
  const { end, watch } = setUp()
  const [local, same] = [
    watch({ clients: ['fe80::/10'] }),
    watch({ clients: ['fe80::1'] }),
  ]
  end(1, { address: 'fe80::1%eth0' })
  end(1, { address: 'fe80::2%2' })
  t.equal(local().ended.length, 2)
  t.equal(same().ended.length, 1)
})

t.test('those that ask for the same share what is kept', async t => {
  const { end, look } = setUp()
  const one = look({ listeners: ['a', 'b'] })
  end(2)
  const other = look({ listeners: ['b', 'a'] })
  t.strictSame(other.ended, [], 'the first look is from now on')
  end(1)
  t.equal(look({ listeners: ['a', 'b'], after: one.next }).ended.length, 3)
  t.equal(look({ listeners: ['a', 'b'], after: other.next }).ended.length, 1)
})

t.test(
  'too many that ask for different ones are refused, and hold up nobody',
  async t => {
    const { clock, look, end } = setUp()
    const at = (i: number, after?: string) =>
      look({ routes: [`l${i}`], listeners: [`l${i}`], after })
    const first = Array.from({ length: 8 }, (_, i) => at(i))
    for (const { isFull } of first) t.equal(isFull, false)
    t.match(at(8, 'x'), { isFull: true, next: 'x' })
    t.equal(at(7).isFull, false)
    clock.advance(3000)
    t.equal(at(8).isFull, true, 'each may have looked 3 s ago')
    for (let i = 2; i < 8; i += 1) at(i)
    clock.advance(1)
    t.equal(
      at(8).isFull,
      false,
      'in place of who has gone: who looks does so each second',
    )
    t.equal(at(9).isFull, false)
    t.equal(at(10).isFull, true)
    end(1, { listener: 'l2' })
    t.match(at(2, first[2]?.next), { ended: [{}], gap: false }, 'the others are there')
    clock.advance(leaseMs)
    t.equal(clock.waiting, 0, 'no lease of one that had to go is left')
  },
)

t.test('listeners come and go, and nothing of the others is lost', async t => {
  const { end, look } = setUp()
  const { next } = look({ routes: ['web'], listeners: ['a'] })
  end(2)
  const more = look({ routes: ['web'], listeners: ['a', 'b'], after: next })
  t.match(more, { ended: [{}, {}], gap: false })
  end(1, { listener: 'b' })
  end(1)
  const less = look({ routes: ['web'], listeners: ['b'], after: more.next })
  t.match(less, { ended: [{ listener: 'b' }, { listener: 'a' }], gap: false })
  end(1)
  t.match(look({ routes: ['web'], listeners: ['b'], after: less.next }), {
    ended: [],
    gap: false,
  })
})

t.test('what is not from this ring says so', async t => {
  const { look } = setUp()
  const { next } = look()
  const { next: others } = look({ failed: true })
  for (const after of ['', 'x', '1', '.', `${next}.1`, `${next}x`, others, `2${next}`])
    t.match(look({ after }), { ended: [], gap: true, next }, after)
  t.match(look({ after: next }), { gap: false })
})
