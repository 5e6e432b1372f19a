import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { Balancer } from '../../src/balance/balancer.ts'
import { OwnCell } from '../../src/balance/cell.ts'
import {
  afterReply,
  afterSilence,
  enoughUnanswered,
  isAnswering,
  noReplies,
  type Replies,
} from '../../src/balance/replies.ts'
import { noRest } from '../../src/balance/resting.ts'
import { RestPages } from '../../src/relay/linux/shared/rest-pages.ts'

/** After flows that ended without a reply, by when their clients wrote. */
const silent = (before: Replies, ...sentAt: readonly number[]): Replies =>
  sentAt.reduce((replies, at) => afterSilence(replies, at) ?? replies, before)

/** After flows that had their replies. */
const replied = (before: Replies, ...at: readonly number[]): Replies =>
  at.reduce((replies, now) => afterReply(replies, now), before)

const isSilent = (own: Replies, others: readonly Replies[]): boolean =>
  own.unanswered >= enoughUnanswered && others.some(other => isAnswering(other, own))

t.test('an endpoint is silent', async t => {
  const three = silent(noReplies, 10, 20, 30)
  const answering = replied(noReplies, 14, 15)
  t.test('after three flows without a reply, where another has answered', async t => {
    t.equal(isSilent(three, [noReplies, answering]), true)
    t.equal(isSilent(silent(noReplies, 10, 20), [answering]), false, 'not after two')
    t.equal(isSilent(silent(three, 40, 50), [answering]), true, 'and after five')
  })
  t.test('not where no other has answered since the first of them', async t => {
    t.equal(isSilent(three, []), false)
    t.equal(isSilent(three, [noReplies, silent(noReplies, 10, 20, 30)]), false)
    t.equal(isSilent(three, [replied(noReplies, 8, 9)]), false, 'before it')
    t.equal(isSilent(three, [replied(noReplies, 9, 10)]), true, 'at the same time')
  })
  t.test('not where the others have fallen silent too', async t => {
    t.equal(isSilent(three, [silent(answering, 16)]), false)
  })
  t.test('not where it has answered in between', async t => {
    const again = silent(replied(noReplies, 25), 26, 27)
    const other = replied(noReplies, 29, 30)
    t.equal(isSilent(again, [other]), false)
    t.equal(isSilent(silent(again, 28), [other]), true)
  })
  t.test('not by flows that are older than what it answered last', async t => {
    const before = replied(noReplies, 25)
    t.match(afterSilence(before, 24), { unanswered: 0, since: 25 })
    const other = replied(noReplies, 29, 30)
    t.equal(isSilent(silent(before, 10, 20, 24, 26, 27), [other]), false)
    t.equal(isSilent(silent(before, 10, 20, 24, 26, 27, 28), [other]), true)
  })
  t.test('not where the others answer few of their flows', async t => {
    t.equal(isSilent(three, [replied(noReplies, 15)]), false, 'one may be chance')
    const seldom = silent(replied(noReplies, 10, 11, 12), 11.5)
    t.match(seldom, { unanswered: 0, weight: 1 })
    t.equal(isSilent(three, [seldom]), false, 'an older flow had none')
    t.equal(isSilent(three, [replied(seldom, 13)]), true)
    const ever = Array.from({ length: 100 }, (_, i) => i)
    t.equal(isSilent(three, [silent(replied(noReplies, ...ever), 1, 2)]), true)
    t.equal(isSilent(three, [silent(replied(noReplies, ...ever), 1, 2, 3)]), false)
  })
})

t.test('what came back of an endpoint is kept in shared memory as it is', async () => {
  const pages = new RestPages()
  pages.ensure(1)
  const replies = fc.record(
    {
      unanswered: fc.integer({ min: 0, max: 3 }),
      since: fc.integer({ min: 1, max: 2 ** 42 - 1 }),
      hasAnswered: fc.boolean(),
      weight: fc.integer({ min: 0, max: 7 }),
    },
    { noNullPrototype: true },
  )
  fc.assert(
    fc.property(replies, value => {
      const late = pages.repliesOf(0)
      pages.renew(0)
      const [cell, beside] = [pages.repliesOf(0), pages.repliesOf(1)]
      assert.deepEqual(cell.read(), noReplies)
      assert.ok(cell.change(() => value))
      assert.deepEqual(cell.read(), value)
      assert.ok(!late.change(before => afterReply(before, 1)), 'of the endpoint before')
      assert.deepEqual(pages.of(0).read(), noRest)
      assert.deepEqual(beside.read(), noReplies)
    }),
  )
})

t.test('where a reply shows that an endpoint serves', async t => {
  const clock = { time: 0, now: () => clock.time }
  const balancer = new Balancer(clock, () => 0)
  const [a, b] = ['a', 'b'].map(key => ({ key, rest: new OwnCell(noRest) }))
  if (a === undefined || b === undefined) throw new Error('two')
  balancer.setEndpoints([a, b])
  balancer.replyMs = 30_000
  const next = (client: string): string => balancer.pick(client)?.key ?? ''
  t.test('it is tried by one flow for as long as that waits', async t => {
    balancer.failed(a, 10_000, 60_000)
    clock.time = 10_000
    t.equal(
      [1, 2, 3, 4]
        .map(() => next('client'))
        .join('')
        .replaceAll('b', ''),
      'a',
    )
    clock.time = 39_999
    t.notOk([1, 2, 3, 4].map(() => next('client')).includes('a'))
    clock.time = 40_000
    t.ok([1, 2].map(() => next('client')).includes('a'))
  })
  t.test('its own clients go elsewhere until then', async t => {
    balancer.setAffinity(1e6)
    balancer.connected('its own', a)
    t.same(
      [1, 2].map(() => next('its own')),
      ['b', 'b'],
    )
    balancer.served(a)
    t.same(
      [1, 2].map(() => next('its own')),
      ['a', 'a'],
    )
  })
})
