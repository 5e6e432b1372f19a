import { once } from 'node:events'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { carryingFds, type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { dial, namedEcho } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Endpoints that went down, and whose connections were to be reset then. */
export const tcpCutContract = (t: Test, make: MakeRelay): void => {
  t.test('connections to an endpoint that is cut are reset, and no others', async t => {
    const { listen, records, relay, stats } = relayFixture(t, make)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const [a, b] = await Promise.all(['a', 'b'].map(name => namedEcho(t, name)))
    if (a === undefined || b === undefined) throw new Error('two')
    await listen({ binds, endpoints: [a.endpoint, b.endpoint] })
    const clients = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const socket = dial(t, port)
        const state = { name: '', how: '' }
        socket.on(
          'error',
          (error: NodeJS.ErrnoException) => (state.how = error.code ?? ''),
        )
        const [name] = (await once(socket, 'data')) as [Buffer]
        state.name = name.toString()
        return { socket, state }
      }),
    )
    await listen({ binds, endpoints: [b.endpoint], cut: [a.endpoint.key] })
    const to = (wanted: string) => clients.filter(({ state }) => state.name === wanted)
    await until('those of a are reset', () =>
      to('a').every(({ state }) => state.how === 'ECONNRESET'),
    )
    t.equal(to('a').length, 4)
    for (const { socket } of to('b')) {
      socket.write('still there')
      const [echo] = (await once(socket, 'data')) as [Buffer]
      t.equal(echo.toString(), 'still there')
    }
    await until('they are recorded', () => records.length === 4)
    for (const record of records) {
      t.match(record, { cause: 'DD', endpoint: a.endpoint.key })
    }
    t.equal(stats().counters.failed.DD, 4)
    t.equal(carryingFds(relay.stats()), 8)
  })

  t.test(
    'a dial under way to an endpoint that is cut goes elsewhere at once',
    async t => {
      const { listen, stats } = relayFixture(t, make)
      const port = await freeTcpPort()
      const binds = [{ address: testHost, port }]
      const silent = await silentBackend(t)
      const alive = await namedEcho(t, 'alive')
      await listen({ binds, endpoints: [silent] })
      const client = dial(t, port)
      await until('it is dialled', () => stats().counters.dialAttempts === 1)
      await listen({ binds, endpoints: [alive.endpoint], cut: [silent.key] })
      const [name] = (await once(client, 'data')) as [Buffer]
      t.equal(name.toString(), 'alive', 'long before the ladder of 15 s is over')
      t.equal(stats().counters.dialAttempts, 2)
    },
  )

  t.test('one that is picked all the same is cut once', async t => {
    const { listen, records } = relayFixture(t, make)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const [only, spare] = await Promise.all(['a', 'b'].map(name => namedEcho(t, name)))
    if (only === undefined || spare === undefined) throw new Error('two')
    const endpoints = [only.endpoint, { ...spare.endpoint, tier: 1 }]
    const connected = async () => {
      const socket = dial(t, port)
      const ended = new Promise(resolve => socket.on('error', resolve))
      await once(socket, 'data')
      return { socket, ended }
    }
    const [key, backup] = [only.endpoint.key, spare.endpoint.key]
    await listen({ binds, endpoints: [only.endpoint] })
    const first = await connected()
    await listen({ binds, endpoints: [only.endpoint], cut: [key] })
    await first.ended
    const second = await connected()
    await listen({ binds, endpoints: [only.endpoint], cut: [key], affinityMs: 1000 })
    second.socket.write('still there')
    await once(second.socket, 'data')

    await listen({ binds, endpoints: endpoints.slice(1) })
    const third = await connected()
    await listen({ binds, endpoints, backups: [backup] })
    await third.ended
    await until('both are recorded', () => records.length === 2)
    t.match(records, [
      { cause: 'DD', endpoint: key, detail: 'endpoint down or gone' },
      {
        cause: 'DD',
        endpoint: backup,
        detail: 'a preferred endpoint is back',
      },
    ])
  })
}
