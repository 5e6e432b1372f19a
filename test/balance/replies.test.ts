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

const isSilent = (own: Replies, others: readonly Replies[]): boolean =>
  own.unanswered >= enoughUnanswered && others.some(other => isAnswering(other, own))

t.test('an endpoint is silent', async t => {
  const three = silent(noReplies, 10, 20, 30)
  const answering = afterReply(15)
  t.test('after three flows without a reply, where another has answered', async t => {
    t.equal(isSilent(three, [noReplies, answering]), true)
    t.equal(isSilent(silent(noReplies, 10, 20), [answering]), false, 'not after two')
    t.equal(isSilent(silent(three, 40, 50), [answering]), true, 'and after five')
  })
  t.test('not where no other has answered since the first of them', async t => {
    t.equal(isSilent(three, []), false)
    t.equal(isSilent(three, [noReplies, silent(noReplies, 10, 20, 30)]), false)
    t.equal(isSilent(three, [afterReply(9)]), false, 'before it')
    t.equal(isSilent(three, [afterReply(10)]), true, 'at the same time')
  })
  t.test('not where the others have fallen silent too', async t => {
    t.equal(isSilent(three, [silent(answering, 16)]), false)
  })
  t.test('not where it has answered in between', async t => {
    const again = silent(afterReply(25), 26, 27)
    t.equal(isSilent(again, [afterReply(30)]), false)
    t.equal(isSilent(silent(again, 28), [afterReply(30)]), true)
  })
  t.test('not by flows that are older than what it answered last', async t => {
    t.equal(afterSilence(afterReply(25), 24), undefined)
    t.equal(isSilent(silent(afterReply(25), 10, 20, 24, 26, 27), [answering]), false)
  })
})

t.test('what came back of an endpoint is kept in shared memory as it is', async () => {
  const pages = new RestPages()
  pages.ensure(1)
  const replies = fc.record(
    {
      unanswered: fc.integer({ min: 0, max: 3 }),
      since: fc.integer({ min: 1, max: 2 ** 45 - 1 }),
      hasAnswered: fc.boolean(),
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
      assert.ok(!late.change(() => afterReply(1)), 'of the endpoint before')
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
