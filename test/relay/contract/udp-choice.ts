import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  frontOf,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import {
  namedUdp,
  type Reply,
  udpBackend,
  type UdpBackend,
} from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const three = (t: Test): Promise<UdpBackend[]> =>
  Promise.all(['a', 'b', 'c'].map(name => namedUdp(t, name)))

const endpointsOf = (backends: readonly UdpBackend[]): RelayEndpoint[] =>
  backends.map(backend => backend.endpoint)

const keysOf = (backends: readonly UdpBackend[]): string[] =>
  backends.map(({ endpoint }) => endpoint.key)

/** Which endpoint a flow goes to, and what becomes of it when the endpoints change. */
export const udpChoiceContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, affinityMs = 0) => {
    const fixture = relayFixture(t, make)
    const port = await freeUdpPort()
    const binds = [{ address: testHost, port }]
    const listen = (endpoints: readonly RelayEndpoint[]): Promise<void> =>
      fixture.listen({ protocol: 'UDP', binds, endpoints, affinityMs })
    const spec = (one: ListenerSpec): Promise<void> =>
      fixture.listen({ protocol: 'UDP', ...one })
    return { ...fixture, listen, spec, port, binds }
  }

  t.test('datagrams of one client are spread over the endpoints', async t => {
    const { spec, port, binds, stats, relay } = await setUp(t)
    const [a, b, c] = await three(t)
    if (!a || !b || !c) throw new Error('three')
    const counts = (): number[] => [a, b, c].map(({ received }) => received.length)
    const spread = (n: number, ...to: UdpBackend[]) =>
      spec({ binds, endpoints: endpointsOf(to), udp: { spread: n, idleMs: 1000 } })
    await spread(2, a, b, c)
    const [one, other] = [await udpClient(t, port), await udpClient(t, port)]
    const seen: string[] = []
    for (let i = 0; i < 12; i += 1) seen.push(await one.ask('?'))
    t.strictSame(counts(), [4, 4, 4], 'two each, twice')
    t.equal(new Set(seen.filter((_, i) => i % 2 === 0)).size, 3, 'and replies of all')
    t.strictSame(
      seen.filter((_, i) => i % 2 === 0),
      seen.filter((_, i) => i % 2 === 1),
    )
    t.match(stats().counters, { active: 3, accepted: 3 }, 'a flow for each')
    for (let i = 0; i < 60; i += 1) {
      one.send('silence')
      other.send('silence')
    }
    await until('all have come', () => counts().reduce((x, y) => x + y) === 132)
    t.ok(
      counts().every(n => n === 44),
      `in a burst, too: ${counts().join()}`,
    )
    t.equal(stats().counters.active, 6)
    await spread(1, a, b, c)
    await a.close()
    let [tries, answers] = [0, new Set<string>()]
    for (; tries < 12; tries += 1) answers.add(await one.ask('?'))
    t.strictSame([...answers].toSorted(), ['b', 'c'], 'one that refuses is passed over')
    await spread(1, b)
    t.strictSame([await one.ask('?'), await one.ask('?')], ['b', 'b'], 'there is one')
    await spec({ binds, endpoints: [] })
    one.send('nobody')
    await until('its flows end', () => carryingFds(relay.stats()) === 0)
  })

  t.test('a client stays with one endpoint, and new ones take turns', async t => {
    const { listen, port, stats } = await setUp(t)
    await listen(endpointsOf(await three(t)))
    const seen: string[] = []
    for (let i = 0; i < 6; i += 1) {
      const client = await udpClient(t, port)
      const answers = [
        await client.ask('1'),
        await client.ask('2'),
        await client.ask('3'),
      ]
      t.equal(new Set(answers).size, 1, 'it has one endpoint')
      seen.push(answers[0] ?? '')
    }
    t.equal(new Set(seen.slice(0, 3)).size, 3, 'each had a client in the first round')
    t.strictSame(seen.slice(3), seen.slice(0, 3), 'and in the second, in the same order')
    t.equal(stats().counters.accepted, 6)
  })

  t.test(
    'with ClientIP affinity all ports of a client go to one endpoint',
    { skip: process.platform !== 'linux' && 'there is but one loopback address' },
    async t => {
      const { listen, port, stats } = await setUp(t, 60_000)
      await listen(endpointsOf(await three(t)))
      const places = new Map<string, Set<string>>()
      const everywhere = new Set<string>()
      for (let round = 0; round < 4; round += 1) {
        for (const from of ['127.0.0.11', '127.0.0.12', '127.0.0.13']) {
          const client = await udpClient(t, port, testHost, from)
          const place = await client.ask('where?')
          everywhere.add(place)
          places.set(from, (places.get(from) ?? new Set()).add(place))
        }
      }
      for (const [from, seen] of places) t.equal(seen.size, 1, `${from} saw one endpoint`)
      t.equal(everywhere.size, 3, 'and the clients are spread')
      t.equal(stats().counters.accepted, 12, 'over flows of their own')
    },
  )

  t.test('the flow of an endpoint that is removed goes to another', async t => {
    const { listen, port, stats, relay } = await setUp(t)
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    await listen([a.endpoint])
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    await listen([b.endpoint])
    t.equal(await client.ask('2'), 'b', 'the very next datagram')
    t.strictSame(a.received.map(String), ['1'])
    t.strictSame(b.received.map(String), ['2'], 'and no old one came with it')
    const { counters, endpoints } = stats()
    t.match(counters, { accepted: 1, active: 1, dialAttempts: 2, dialRetries: 0 })
    t.match(endpoints, [{ key: b.endpoint.key, active: 1 }])
    t.equal(carryingFds(relay.stats()), 1)
  })

  t.test('many flows move in turns, between which others are served', async t => {
    const { listen, port, stats } = await setUp(t)
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    await listen([a.endpoint])
    const count = 1500
    for (let opened = 0; opened < count; opened += 50) {
      const some = Array.from({ length: 50 }, () => udpClient(t, port))
      for (const client of await Promise.all(some)) client.send('1')
      const all = opened + some.length
      await until('all have flows', () => stats().counters.active === all)
    }
    const moved = (): number => stats().endpoints[0]?.active ?? 0
    const seen = new Set<number>()
    const applied = listen([b.endpoint]).then(() => seen.add(-1))
    while (!seen.has(-1)) {
      await turn()
      seen.add(moved())
    }
    await applied
    t.equal(moved(), count)
    t.ok([...seen].some(one => one > 0 && one < count))
  })

  t.test('a late reply of an endpoint that was removed is not passed on', async t => {
    const { listen, port, relay, stats } = await setUp(t)
    const replies: Reply[] = []
    const tardy = await udpBackend(t, (_message, reply) => {
      replies.push(reply)
    })
    const b = await namedUdp(t, 'b')
    await listen([tardy.endpoint])
    const client = await udpClient(t, port)
    client.send('1')
    await until('the first endpoint has it', () => tardy.received.length === 1)
    await listen([b.endpoint])
    replies[0]?.('too late')
    t.equal(await client.ask('2'), 'b')
    await sleep(50)
    t.strictSame(client.received.map(String), ['b'])
    t.match(stats().counters, { datagramsToClient: 1 })
    t.equal(carryingFds(relay.stats()), 1)
  })

  t.test('the flows of endpoints that stay are left alone', async t => {
    const { listen, port, stats } = await setUp(t)
    const [a, b, c] = await three(t)
    if (!a || !b || !c) throw new Error('no backends')
    await listen(endpointsOf([a, b]))
    const clients = await Promise.all([1, 2].map(() => udpClient(t, port)))
    const before: string[] = []
    for (const client of clients) before.push(await client.ask('1'))
    t.strictSame(before.toSorted(), ['a', 'b'])
    await listen(endpointsOf([c, b, a]))
    const after: string[] = []
    for (const client of clients) after.push(await client.ask('2'))
    t.strictSame(after, before)
    await listen(endpointsOf([c, b]))
    for (const [i, client] of clients.entries()) {
      const place = await client.ask('3')
      if (before[i] === 'b') t.equal(place, 'b')
      else t.match(place, /^[bc]$/)
    }
    t.match(stats().counters, { accepted: 2, dialAttempts: 3 }, 'one has moved')
  })

  t.test(
    'flows stay at an endpoint that terminates for as long as it serves',
    async t => {
      const { port, binds, stats, relay, spec } = await setUp(t)
      const [a, b] = await three(t)
      if (a === undefined || b === undefined) throw new Error('no backends')
      const listen = (
        backends: UdpBackend[],
        staying: UdpBackend[] = [],
      ): Promise<void> =>
        spec({ binds, endpoints: endpointsOf(backends), staying: keysOf(staying) })
      await listen([a])
      const old = await udpClient(t, port)
      t.equal(await old.ask('1'), 'a')
      await listen([b], [a])
      t.equal(await old.ask('2'), 'a')
      const fresh = await udpClient(t, port)
      t.equal(await fresh.ask('3'), 'b', 'new ones go elsewhere')
      t.match(stats().endpoints, [{ key: b.endpoint.key, active: 1 }])
      await listen([a, b])
      t.equal(await old.ask('4'), 'a', 'it came back')
      t.match(stats().endpoints, [
        { key: a.endpoint.key, active: 1 },
        { key: b.endpoint.key, active: 1 },
      ])
      await listen([b], [a])
      t.equal(await old.ask('5'), 'a')
      await listen([b])
      t.equal(await old.ask('6'), 'b', 'it serves no more')
      t.match(stats().counters, { accepted: 2, active: 2, dialAttempts: 3 })
      t.match(stats().endpoints, [{ key: b.endpoint.key, active: 2 }])
      t.equal(carryingFds(relay.stats()), 2)
    },
  )

  t.test('an endpoint that only stays is given to nobody', async t => {
    const { port, binds, spec } = await setUp(t)
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    await spec({ binds, endpoints: [a.endpoint], staying: keysOf([a, b]) })
    const one = await udpClient(t, port)
    t.equal(await one.ask('1'), 'a')
    await spec({ binds, endpoints: [b.endpoint], staying: keysOf([a]) })
    await a.close()
    t.equal(await one.ask('2'), 'b', 'who is refused there moves on')
  })

  t.test('without endpoints clients are refused, and served when some come', async t => {
    const { listen, port, stats, relay } = await setUp(t)
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    await listen([a.endpoint])
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    await listen([])
    t.match(stats().binds, [{ state: 'closed', reason: 'no endpoints' }])
    t.equal(stats().counters.active, 0, 'its flow is closed')
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    t.equal(await client.ask('2'), 'ECONNREFUSED')
    await listen([b.endpoint])
    t.equal(await client.ask('3'), 'b')
    t.equal(stats().counters.accepted, 2, 'it has a new flow')
    t.strictSame(a.received.map(String), ['1'])
  })

  t.test('a bind that is no longer wanted takes its flows with it', async t => {
    const { relay, binds, port } = await setUp(t)
    const a = await namedUdp(t, 'a')
    const other = { address: testHost, port: await freeUdpPort() }
    const spec = {
      id: 'test',
      name: 'test',
      protocol: 'UDP',
      endpoints: [a.endpoint],
      affinityMs: 0,
    } as const
    await relay.apply([{ ...spec, fronts: [frontOf([...binds, other])] }])
    const leaving = await udpClient(t, port)
    const staying = await udpClient(t, other.port)
    for (const client of [leaving, staying]) t.equal(await client.ask('1'), 'a')
    await relay.apply([{ ...spec, fronts: [frontOf([other])] }])
    t.equal(carryingFds(relay.stats()), 1)
    t.equal(await leaving.ask('2'), 'ECONNREFUSED')
    t.equal(await staying.ask('2'), 'a')
    t.match([...relay.stats().listeners], [{ counters: { accepted: 2, active: 1 } }])
    await relay.apply([])
    t.equal(await staying.ask('3'), 'ECONNREFUSED')
    t.match(relay.stats(), { listeners: [], fds: { used: 0 } })
  })

  t.test('a port in use is tried again', async t => {
    const { listen, port, stats } = await setUp(t)
    const taken = await namedUdp(t, 'somebody else', port)
    const a = await namedUdp(t, 'a')
    await listen([a.endpoint])
    t.match(stats().binds, [{ state: 'failed', error: 'EADDRINUSE' }])
    t.match(stats().lastError, `:${port}: EADDRINUSE`)
    await taken.close()
    await until('it listens', () => stats().binds.every(one => one.state === 'listening'))
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
  })

  t.test('endpoints changed 200 times lose no client that asks again', async t => {
    const { listen, port, stats, relay } = await setUp(t)
    const backends = await three(t)
    await listen(endpointsOf(backends))
    const clients = await Promise.all(
      Array.from({ length: 12 }, () => udpClient(t, port)),
    )
    const changes = { over: false }
    const asking = clients.map(async client => {
      let answered = 0
      while (!changes.over) {
        const came = client.received.length
        client.send('?')
        // A reply that was on its way when the flow moved is lost, as UDP may: ask again.
        await Promise.race([
          until('a reply came', () => client.received.length > came),
          sleep(50),
        ])
        if (client.received.length > came) answered += 1
      }
      return answered
    })
    for (let i = 0; i < 200; i += 1) {
      await listen(endpointsOf(backends).toSpliced(i % 3, 1 + (i % 2)))
      await sleep(2)
    }
    await listen(endpointsOf(backends))
    changes.over = true
    const answered = await Promise.all(asking)
    t.strictSame(
      answered.filter(count => count < 10),
      [],
      'each was answered again and again',
    )
    for (const client of clients) t.match(await client.ask('still?'), /^[abc]$/)
    t.match(stats().counters, { accepted: 12, active: 12 }, 'with one flow each')
    t.strictSame(stats().counters.datagramsDropped, {})
    t.equal(
      stats().endpoints.reduce((sum, { active }) => sum + active, 0),
      12,
    )
    t.equal(carryingFds(relay.stats()), 12)
  })
}
