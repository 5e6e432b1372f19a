import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { Balancer } from '../../src/balance/balancer.ts'
import { OwnCell } from '../../src/balance/cell.ts'
import { noDoubts } from '../../src/balance/doubts.ts'
import {
  afterReply,
  afterSilence,
  isAnswering,
  noReplies,
  type Replies,
  replyClients,
} from '../../src/balance/replies.ts'
import { noCooldown } from '../../src/balance/cooldown.ts'
import { SharedEndpointState } from '../../src/relay/engine/shared/shared-endpoint-state.ts'

t.test(
  'an endpoint answers others while nearly all of its flows have replies',
  async t => {
    const replied = (before: Replies, flows: number): Replies =>
      Array.from({ length: flows }).reduce<Replies>(one => afterReply(one, 7, 15), before)
    const silent = (before: Replies, flows: number): Replies =>
      Array.from({ length: flows }).reduce<Replies>(
        one => afterSilence(one) ?? one,
        before,
      )
    t.equal(isAnswering(replied(noReplies, 1), 10), false, 'one may be chance')
    t.equal(isAnswering(replied(noReplies, 2), 10), true)
    t.equal(isAnswering(replied(noReplies, 2), 15), true, 'at the same time')
    t.equal(isAnswering(replied(noReplies, 2), 16), false, 'before it')
    t.equal(isAnswering(silent(replied(noReplies, 3), 1), 10), false)
    t.equal(isAnswering(silent(replied(noReplies, 100), 2), 10), true)
    t.equal(isAnswering(silent(replied(noReplies, 100), 3), 10), false)
  },
)

t.test('what came back of an endpoint is kept in shared memory as it is', async () => {
  const pages = new SharedEndpointState()
  pages.ensure(1)
  const replies = fc.record(
    {
      at: fc.integer({ min: 1, max: 2 ** 39 - 1 }),
      client: fc.integer({ min: 0, max: replyClients - 1 }),
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
      assert.ok(
        !late.change(before => afterReply(before, 1, 1)),
        'of the endpoint before',
      )
      assert.deepEqual(pages.cooldownOf(0).read(), noCooldown)
      assert.deepEqual(pages.doubtsOf(0).read(), noDoubts)
      assert.deepEqual(beside.read(), noReplies)
    }),
  )
})

t.test('where a reply shows that an endpoint serves', async t => {
  const clock = { time: 0, now: () => clock.time }
  const balancer = new Balancer(clock, () => 0)
  const [a, b] = ['a', 'b'].map(key => ({ key, cooldown: new OwnCell(noCooldown) }))
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
