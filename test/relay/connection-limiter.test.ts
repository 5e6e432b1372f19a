import * as fc from 'fast-check'
import t from 'tap'
import type { ConnectionLimits } from '../../src/model/traffic.ts'
import { clientKey, ClientTable } from '../../src/relay/client-table.ts'
import {
  ConnectionLimiter,
  newLimiterMemory,
} from '../../src/relay/connection-limiter.ts'
import { addressWords } from '../../src/util/cidr.ts'

const keyOf = (address: string) => clientKey(addressWords(address) ?? [])

t.test('a client is one address', async t => {
  t.equal(keyOf('::ffff:10.0.0.1'), keyOf('10.0.0.1'))
  const keys = ['10.0.0.1', '10.0.0.2', '::1', '::2', 'fd00::1', 'fd00:0:0:1::1'].map(
    keyOf,
  )
  t.equal(new Set(keys).size, keys.length)
})

t.test('each limit is named, and what is refused uses up nothing', async t => {
  const limiter = new ConnectionLimiter(newLimiterMemory())
  limiter.limits = { routeConnections: 3, clientConnections: 2 }
  t.equal(limiter.take('a', 0), undefined)
  t.equal(limiter.take('a', 0), undefined)
  t.equal(limiter.take('a', 0), 'max-client-connections')
  t.equal(limiter.take('b', 0), undefined)
  t.equal(limiter.take('c', 0), 'max-route-connections')
  limiter.ended('a', 0)
  t.equal(limiter.take('c', 0), undefined)
  t.equal(limiter.take('a', 0), 'max-route-connections')

  limiter.limits = { routeConnections: 1 }
  t.equal(limiter.take('d', 0), 'max-route-connections', 'fewer than there are')
  for (const client of ['a', 'b', 'c']) limiter.ended(client, 0)
  t.equal(limiter.take('d', 0), undefined)
  limiter.ended('d', 0)

  limiter.limits = { routeRate: 3, clientRate: 2 }
  for (const [client, expected] of [
    ['a', undefined],
    ['a', undefined],
    ['a', 'max-client-rate'],
    ['b', undefined],
    ['b', 'max-route-rate'],
  ] as const)
    t.equal(limiter.take(client, 10_000), expected, client)
  t.equal(limiter.take('b', 11_000), undefined)
  t.equal(limiter.take('a', 11_000), undefined)

  for (const client of ['a', 'a', 'b', 'b', 'a']) limiter.ended(client, 20_000)
  limiter.limits = { routeConnections: 1, routeRate: 1 }
  t.equal(limiter.take('a', 20_000), undefined)
  limiter.ended('a', 20_000)
  t.equal(limiter.take('a', 20_000), 'max-route-rate')
  t.equal(limiter.take('a', 21_000), undefined, 'its place is free still')
})

t.test('a client that has left is known for as long as it counts', async t => {
  const table = new ClientTable()
  const limits = { clientRate: 2 }
  const come = (now: number): boolean => {
    if (table.over('a', limits, now) !== undefined) return false
    table.begun('a', limits, now)
    table.ended('a', now)
    return true
  }
  const came = [0, 0, 0, 499, 501, 501, 999, 1001, 1001, 3000, 3000, 3000].map(come)
  const [yes, no] = [true, false]
  t.strictSame(came, [yes, yes, no, no, yes, no, no, yes, no, yes, yes, no])
})

t.test('places are of all workers, clients of one', async t => {
  const memory = newLimiterMemory()
  const [one, two] = [1, 2].map(() => new ConnectionLimiter(memory))
  if (one === undefined || two === undefined) return
  one.limits = { routeConnections: 3, clientConnections: 2 }
  two.limits = one.limits
  t.equal(one.take('a', 0), undefined)
  two.adopt('b', 0)
  two.adopt('b', 0)
  two.adopt('b', 0)
  t.equal(one.take('a', 0), 'max-route-connections', 'those that were there count')
  t.equal(two.take('b', 0), 'max-client-connections')
  for (let i = 0; i < 3; i += 1) two.ended('b', 0)
  t.equal(one.take('a', 0), undefined)
  t.equal(one.take('a', 0), 'max-client-connections')
})

t.test('10 000 addresses, and how much is remembered of them', async t => {
  const table = new ClientTable(100)
  const limits = { clientConnections: 1, clientRate: 1 }
  for (let i = 0; i < 10_000; i += 1) table.begun(i, limits, 0)
  t.equal(table.size, 10_000, 'who is connected is never forgotten')
  for (let i = 0; i < 10_000; i += 1)
    t.equal(table.over(i, limits, 0), 'max-client-connections')
  for (let i = 0; i < 10_000; i += 1) table.ended(i, 0)
  t.equal(table.size, 100)
  t.equal(table.over(9_999, limits, 0), 'max-client-rate')
  t.equal(table.over(0, limits, 0), undefined, 'the first that left are forgotten')
  for (let i = 0; i < 60; i += 1) {
    table.begun('a', {}, 2000)
    table.ended('a', 2000)
  }
  t.equal(table.size, 0, 'what has expired goes as others come')
  table.ended('nobody', 0)
})

t.test('clients that come and go at the limit', async () => {
  const step = fc.record({
    client: fc.nat(3),
    leaves: fc.boolean(),
    wait: fc.nat(400),
  })
  const limit = fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined })
  const limits = fc.record({ clientConnections: limit, routeConnections: limit })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), limits, (steps, given) => {
      const limiter = new ConnectionLimiter(newLimiterMemory())
      limiter.limits = given satisfies ConnectionLimits
      const { clientConnections = Infinity, routeConnections = Infinity } = given
      const open: number[] = []
      let now = 0
      return steps.every(({ client, leaves, wait }) => {
        now += wait
        if (leaves) {
          const at = open.indexOf(client)
          if (at < 0) return true
          open.splice(at, 1)
          limiter.ended(client, now)
          return true
        }
        const own = open.filter(other => other === client).length
        const expected =
          own >= clientConnections
            ? 'max-client-connections'
            : open.length >= routeConnections
              ? 'max-route-connections'
              : undefined
        if (expected === undefined) open.push(client)
        return limiter.take(client, now) === expected
      })
    }),
  )
})
