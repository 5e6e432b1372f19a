import { once } from 'node:events'
import type { Test } from 'tap'
import type { WorkerView } from '../../../src/relay/explanation.ts'
import type { Bind, Relay } from '../../../src/relay/relay.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  endpoint,
  frontOf,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import {
  ask,
  dial,
  firstWord,
  namedBackend,
  namedEcho,
} from '../../support/tcp-backend.ts'
import { namedUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const three = (t: Test) => Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))

const explainedBy = async (
  relay: Pick<Relay, 'query'>,
  bind: Bind,
  client = testHost,
): Promise<readonly WorkerView[]> => {
  const { address: dialled } = bind
  const query = { listener: 'test', bind, client, dialled }
  const { workers, closed } = await relay.query('explain', query)
  return closed === '' ? workers.filter(({ mayCome }) => mayCome) : []
}

/** What is explained is what a connection then gets. */
export const explainContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make)
    const bind = { address: testHost, port: await freeTcpPort() }
    const view = (client?: string) => explainedBy(fixture.relay, bind, client)
    return { ...fixture, bind, view }
  }

  t.test('of turns, and who comes again', async t => {
    const { listen, bind, view } = await setUp(t)
    const backends = await three(t)
    const names = new Map(
      backends.map(({ endpoint: { key } }, i) => [key, ['a', 'b', 'c'][i] ?? '']),
    )
    const namesOf = (views: readonly WorkerView[]) =>
      views.flatMap(({ candidates }) => candidates.map(key => names.get(key)))
    const endpoints = backends.map(one => one.endpoint)
    await listen({ binds: [bind], endpoints })
    for (let i = 0; i < 8; i += 1) {
      const said = namesOf(await view())
      const { text } = await ask(bind.port)
      t.ok(said.includes(text), `${text} is of ${said.join(' ')}`)
    }
    // Now each client has one worker, which is told: a single answer.
    await listen({ binds: [bind], endpoints, affinityMs: 60_000 })
    for (let round = 0; round < 2; round += 1)
      for (let i = 11; i < 21; i += 1) {
        const client = `127.0.0.${i}`
        const views = await view(client)
        t.strictSame(namesOf(views), [(await ask(bind.port, testHost, client)).text])
        const [{ affinity } = { affinity: undefined }] = views
        t.equal(affinity !== undefined, round > 0)
        if (affinity) t.ok(affinity.leftMs > 30_000 && affinity.leftMs <= 60_000)
      }
  })

  t.test(
    'of endpoints that failed, are drained or full, and of clients that may not',
    async t => {
      const { listen, bind, view, relay } = await setUp(t)
      const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
      const gone = endpoint(testHost, await freeTcpPort())
      const endpoints = [gone, a.endpoint, b.endpoint]
      const against = async (key: string) => {
        const views = await view()
        return new Set(
          views.map(one => one.endpoints.find(each => each.key === key)?.against),
        )
      }
      await listen({ binds: [bind], endpoints, retry: { earlyClose: true, replay: 0 } })
      let failed: WorkerView['endpoints'][number] | undefined
      await until('it has failed', async () => {
        await firstWord(bind.port)
        const { workers } = await relay.query('explain', {
          listener: 'test',
          bind,
          client: testHost,
          dialled: testHost,
        })
        const all = workers.flatMap(one => one.endpoints)
        failed = all.find(
          ({ key, lastFailure, cooldownMs }) =>
            key === gone.key && lastFailure && cooldownMs > 0,
        )
        return failed !== undefined
      })
      t.match(failed, {
        against: 'cooling down',
        lastFailure: { reason: 'ECONNREFUSED' },
      })
      t.ok((failed?.cooldownMs ?? 0) <= 60_000)

      await listen({
        binds: [bind],
        endpoints: [a.endpoint, b.endpoint],
        drained: [{ key: a.endpoint.key, close: 'none' }],
        capacity: { maxConnections: 1, queueMs: 0, mostQueued: 1 },
      })
      t.strictSame(await against(a.endpoint.key), new Set(['drained']))
      t.strictSame(await against(b.endpoint.key), new Set(['']))
      const client = dial(t, bind.port).on('error', () => {})
      await once(client, 'data')
      t.strictSame(await against(b.endpoint.key), new Set(['full']))
      for (const one of await view()) t.match(one, { outcome: 'refused', reason: 'full' })

      const fronts = [frontOf([bind], { allowedClients: rangesOf(['127.0.0.9']) })]
      await listen({ fronts, endpoints: [a.endpoint], paused: true })
      for (const one of await view())
        t.match(one, { outcome: 'refused', reason: 'not allowed' })
      for (const one of await view('127.0.0.9'))
        t.match(one, { outcome: 'waits', reason: 'paused', waitMs: 60_000 })
      await listen({ binds: [bind], endpoints: [] })
      const query = { listener: 'test', bind, client: testHost, dialled: testHost }
      t.equal((await relay.query('explain', query)).closed, 'no endpoints')
      const other = await relay.query('explain', { ...query, listener: 'other' })
      t.not(other.closed, '')
      t.strictSame(other.workers, [])
    },
  )

  t.test('of clients that are one too many to wait', async t => {
    const { listen, bind, view, stats } = await setUp(t)
    const a = await namedEcho(t, 'a')
    const fate = (): Promise<string> =>
      new Promise(resolve => {
        dial(t, bind.port)
          .on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
          .on('data', () => resolve('served'))
      })
    const one = { binds: [bind], endpoints: [a.endpoint] }
    const said = async () =>
      new Set((await view()).map(({ outcome, reason }) => `${outcome}: ${reason}`))

    const retry = { earlyClose: false, replay: 0, holdMs: 30_000, mostHeld: 1 }
    await listen({ ...one, retry, paused: true })
    t.strictSame(await said(), new Set(['waits: paused']))
    const held = fate()
    await until('it waits', () => stats().counters.held === 1)
    t.strictSame(await said(), new Set(['refused: too many wait']))
    t.equal(await fate(), 'ECONNRESET')
    const capacity = { maxConnections: 1, queueMs: 20_000, mostQueued: 1 }
    await listen({ ...one, retry, capacity })
    t.equal(await held, 'served')

    t.strictSame(await said(), new Set(['queues: full']))
    void fate()
    await until('it queues', () => stats().counters.queued === 1)
    t.strictSame(await said(), new Set(['refused: too many wait']))
    t.equal(await fate(), 'ECONNRESET')
  })

  t.test('of UDP', async t => {
    const { listen, relay } = relayFixture(t, make)
    const bind = { address: testHost, port: await freeUdpPort() }
    const backends = await Promise.all(['a', 'b'].map(name => namedUdp(t, name)))
    await listen({
      protocol: 'UDP',
      binds: [bind],
      endpoints: backends.map(one => one.endpoint),
      affinityMs: 60_000,
    })
    for (let i = 11; i < 17; i += 1) {
      const from = `127.0.0.${i}`
      const [view] = await explainedBy(relay, bind, from)
      const client = await udpClient(t, bind.port, testHost, from)
      const said = await client.ask('x')
      const index = said.startsWith('a') ? 0 : 1
      t.strictSame(view?.candidates, [backends[index]?.endpoint.key], said)
    }
  })
}
