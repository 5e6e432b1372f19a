import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { ask, dial, namedBackend, namedEcho } from '../../support/tcp-backend.ts'

/** The ways to choose an endpoint. */
export const tcpBalanceContract = (t: Test, make: MakeRelay): void => {
  t.test('least connections: pools that stay are even, and stay even', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const backends = await Promise.all(['a', 'b', 'c'].map(name => namedEcho(t, name)))
    const binds = [{ address: testHost, port }]
    const [a, b, c] = backends.map(backend => backend.endpoint)
    if (a === undefined || b === undefined || c === undefined) throw new Error('three')
    const spec: ListenerSpec = { binds, balance: { by: 'least-connections' } }
    const open = async (count: number): Promise<Socket[]> => {
      const sockets = Array.from({ length: count }, () => dial(t, port))
      await Promise.all(sockets.map(socket => once(socket, 'data')))
      return sockets
    }
    await listen({ ...spec, endpoints: [a, b] })
    await open(20)
    t.strictSame(
      backends.map(({ sockets }) => sockets.size),
      [10, 10, 0],
    )
    await listen({ ...spec, endpoints: [a, b, c] })
    await open(10)
    t.equal(backends[2]?.sockets.size, 10, 'the new one gets all until it has as many')
    await listen({ ...spec, endpoints: [a, { ...b, weight: 2 }, c] })
    await open(10)
    t.equal(backends[1]?.sockets.size, 20, 'twice as many where the weight is twice')
  })

  t.test('maglev: a client has its endpoint, whatever happens to the others', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const backends = await Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))
    const endpoints = backends.map(backend => backend.endpoint)
    const binds = [{ address: testHost, port }]
    const spec: ListenerSpec = { binds, balance: { by: 'maglev' } }
    const clients = Array.from({ length: 30 }, (_, i) => `127.0.2.${i + 1}`)
    const places = () =>
      Promise.all(clients.map(async client => (await ask(port, testHost, client)).text))
    await listen({ ...spec, endpoints })
    const first = await places()
    t.equal(new Set(first).size, 3)
    t.strictSame(await places(), first)
    await listen({ ...spec, endpoints: endpoints.toReversed() })
    t.strictSame(await places(), first)
    await backends[0]?.close()
    const now = await places()
    for (const [i, place] of now.entries())
      if (first[i] !== 'a') t.equal(place, first[i], 'not its endpoint')
    t.notOk(now.includes('a'))
  })

  t.test('random: all get some, and the way to choose may change', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const backends = await Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))
    const endpoints = backends.map(backend => backend.endpoint)
    const binds = [{ address: testHost, port }]
    const seen = async (times: number): Promise<string[]> => {
      const found: string[] = []
      for (let i = 0; i < times; i += 1) found.push((await ask(port)).text)
      return found
    }
    await listen({ binds, endpoints, balance: { by: 'random' } })
    const drawn = await seen(60)
    t.equal(new Set(drawn).size, 3)
    await listen({ binds, endpoints })
    const turns = await seen(6)
    t.strictSame(turns.slice(3), turns.slice(0, 3), 'in turn')
    t.equal(new Set(turns).size, 3)
  })
}
