import { once } from 'node:events'
import type { Test } from 'tap'
import type { EndedPage, EndedQuery } from '../../../src/relay/ended-connections.ts'
import type { Relay } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { endpoint, type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { ask, dial, echoBackend, namedBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Looks at a relay's connections as they end; what has come so far is in `seen`. */
export const watchEnds = async (
  relay: Pick<Relay, 'query'>,
  query: Partial<EndedQuery> = {},
) => {
  const all = {
    routes: ['test/service'],
    listeners: ['test/service:port'],
    failed: false,
    clients: [],
    perSecond: 1000,
    ...query,
  }
  let { next: after } = await relay.query('ended', all)
  const seen: EndedPage['ended'][number][] = []
  const look = async (): Promise<EndedPage> => {
    const page = await relay.query('ended', { ...all, after })
    after = page.next
    seen.push(...page.ended)
    return page
  }
  return { look, seen }
}

/** Connections are told of as they end, to who looks. */
export const tcpEndedContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make, {
      wants: false,
      limits: { dialLadder: [100, 100] },
    })
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    return { ...fixture, port, binds }
  }

  t.test('each with its record, when it has ended', async t => {
    const { relay, listen, port, binds, records } = await setUp(t)
    const [good, dead] = [await namedBackend(t, 'a'), await freeTcpPort()]
    await listen({ binds, endpoints: [endpoint(testHost, dead), good.endpoint] })
    const { look, seen } = await watchEnds(relay)
    const startedAt = Date.now()
    const dials = await Promise.all(Array.from({ length: 20 }, () => ask(port)))
    t.equal(dials.length, 20)
    await until('all are told of', async () => {
      const { ended } = await look()
      // Of one look: each worker is asked at a moment of its own.
      const times = ended.map(({ endedAt }) => endedAt)
      t.strictSame(
        times,
        times.toSorted((one, other) => one - other),
      )
      return seen.length === 20
    })
    t.match(seen[0], {
      listener: 'test/service:port',
      endpoint: good.endpoint.key,
      bytesToClient: 1,
      cause: '--',
      detail: '',
    })
    t.equal(new Set(seen.map(({ client }) => client)).size, 20)
    for (const { client, endedAt, attempts, totalMs, dialMs } of seen) {
      t.match(client, /^127\.0\.0\.1:[1-9]/)
      t.ok(endedAt >= startedAt - 1 && endedAt <= Date.now() + 1)
      t.equal(attempts.at(-1)?.result, 'connected')
      t.ok(dialMs <= totalMs)
    }
    t.match(await look(), { ended: [], leftOut: 0, gap: false })
    t.strictSame(records, [], 'the log has not asked for them')
  })

  t.test('those that fail, and those of some clients', async t => {
    const { relay, listen, port, binds } = await setUp(t)
    const dead = endpoint(testHost, await freeTcpPort())
    const { endpoint: good } = await echoBackend(t)
    await listen({ binds, endpoints: [dead] })
    const failed = await watchEnds(relay, { failed: true })
    const near = await watchEnds(relay, { clients: ['127.0.0.12', '::1'] })
    const other = await watchEnds(relay, { listeners: ['other'] })
    await ask(port, testHost, '127.0.0.12')
    await listen({ binds, endpoints: [good] })
    const leaves = dial(t, port, testHost, '127.0.0.12')
    leaves.end('x')
    await once(leaves.resume(), 'end')
    const cut = dial(t, port, testHost, '127.0.0.13')
    cut.write('x')
    await once(cut, 'data')
    cut.resetAndDestroy()
    await until('both are told of', async () => {
      await Promise.all([failed.look(), near.look(), other.look()])
      return failed.seen.length === 2 && near.seen.length === 2
    })
    t.match(failed.seen, [
      {
        cause: 'SC',
        endpoint: '',
        detail: /^ECONNREFUSED/,
        attempts: [{ endpoint: dead.key, result: 'refused' }],
      },
      { cause: 'CD', client: /^127\.0\.0\.13:[1-9]/, endpoint: good.key },
    ])
    t.match(near.seen, [
      { client: /^127\.0\.0\.12:[1-9]/, cause: 'SC' },
      { client: /^127\.0\.0\.12:[1-9]/, cause: '--', bytesToBackend: 1 },
    ])
    t.strictSame(other.seen, [])
  })

  t.test('one that was open when nobody looked has its client, too', async t => {
    const { relay, listen, port, binds } = await setUp(t)
    const { endpoint: good } = await echoBackend(t)
    await listen({ binds, endpoints: [good] })
    const sockets = [dial(t, port), dial(t, port)]
    const names: string[] = []
    for (const socket of sockets) {
      socket.write('x')
      await once(socket, 'data')
      names.push(`${socket.localAddress}:${socket.localPort}`)
    }
    const { look, seen } = await watchEnds(relay)
    sockets[0]?.resetAndDestroy()
    sockets[1]?.end()
    await until('both are told of', async () => {
      await look()
      return seen.length === 2
    })
    t.strictSame(seen.map(({ client }) => client).toSorted(), names.toSorted())
  })

  t.test('who may not connect', async t => {
    const { relay, listen, port, binds } = await setUp(t)
    const { endpoint: good } = await echoBackend(t)
    const front = { binds, endpoints: [], endpointsFromNode: 'all' } as const
    await listen({
      fronts: [{ ...front, allowedClients: undefined, closedReason: '' }],
      endpoints: [good],
    })
    // From the address that it dials it would be a client of this node.
    const client = '127.0.0.9'
    const { look, seen } = await watchEnds(relay, { failed: true, clients: [client] })
    t.equal((await ask(port, testHost, client)).how, 'ECONNRESET')
    await until('it is told of', async () => {
      await look()
      return seen.length === 1
    })
    t.match(seen, [{ cause: 'PR', client: /^127\.0\.0\.9:[1-9]/, attempts: [] }])
  })

  t.test('what there is no room for is counted', async t => {
    const { relay, listen, port, binds } = await setUp(t)
    const { endpoint: good } = await namedBackend(t, 'a')
    await listen({ binds, endpoints: [good] })
    const { look, seen } = await watchEnds(relay, { perSecond: 1 })
    for (let i = 0; i < 30; i += 1) await ask(port)
    let leftOut = 0
    await until('none is missing', async () => {
      leftOut += (await look()).leftOut
      return leftOut + seen.length === 30
    })
    t.ok(seen.length >= 1 && leftOut > 0, `${seen.length} and ${leftOut}`)
  })

  t.test('no more are told than are asked for, the newest', async t => {
    const { relay, listen, port, binds } = await setUp(t)
    const { endpoint: good } = await namedBackend(t, 'a')
    await listen({ binds, endpoints: [good] })
    const all = await watchEnds(relay)
    const few = await watchEnds(relay, { limit: 3 })
    for (let i = 0; i < 20; i += 1) await ask(port)
    await until('all are told of', async () => {
      await all.look()
      return all.seen.length === 20
    })
    const { ended, leftOut, gap } = await few.look()
    // Two threads tell of theirs, look by look: the order is that of times, in milliseconds.
    const times = all.seen.map(({ endedAt }) => endedAt).toSorted((a, b) => a - b)
    t.strictSame(
      ended.map(({ endedAt }) => endedAt),
      times.slice(-3),
    )
    const clients = new Set(all.seen.map(({ client }) => client))
    t.ok(ended.every(({ client }) => clients.has(client)))
    t.strictSame([leftOut, gap], [17, false])
  })
}
