import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import {
  makeLinuxRelay,
  makeLinuxRelayWith,
  mortalWorker,
} from '../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { type MakeRelay, relayFixture } from '../support/relay-fixture.ts'
import { dial, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { tcpBalanceContract } from './contract/tcp-balance.ts'
import { tcpCapacityContract } from './contract/tcp-capacity.ts'

/** Endpoints that may have so many connections, and clients of them. */
const setUp = async (t: Test, make: MakeRelay, count: number, maxConnections: number) => {
  const fixture = relayFixture(t, make)
  const port = await freeTcpPort()
  const backends = await Promise.all(
    Array.from({ length: count }, (_, i) => namedEcho(t, `${i}`)),
  )
  await fixture.listen({
    binds: [{ address: testHost, port }],
    endpoints: backends.map(backend => backend.endpoint),
    capacity: { maxConnections, queueMs: 60_000, mostQueued: 1024 },
  })
  const counters = () => fixture.stats().counters
  const come = (): Socket => dial(t, port).on('error', () => {})
  return { ...fixture, port, backends, counters, come }
}

t.test('of the Linux relay', { skip: linuxRelaySkip() }, async t => {
  t.test('ways to choose an endpoint', async t => tcpBalanceContract(t, makeLinuxRelay))
  t.test('a limit for each endpoint', async t => tcpCapacityContract(t, makeLinuxRelay))

  t.test('four workers keep one limit, and serve all who wait', async t => {
    const make = makeLinuxRelayWith({ workers: 4 })
    const { backends, come, counters } = await setUp(t, make, 3, 8)
    const most = backends.map(() => 0)
    for (const [i, { server, sockets }] of backends.entries())
      server.on('connection', () => (most[i] = Math.max(most[i] ?? 0, sockets.size)))
    const served = Array.from({ length: 400 }, async () => {
      const client = come()
      await once(client, 'data')
      await sleep(Math.random() * 10)
      client.end()
      await once(client, 'close')
    })
    await until('many wait', () => counters().queued > 100)
    await Promise.all(served)
    t.ok(Math.max(...most) <= 8, most.join(' '))
    t.match(counters(), { queued: 0, queueRefused: 0, accepted: 400 })
    t.strictSame(counters().failed, {})
  })

  t.test('first come, first served, whichever workers they come to', async t => {
    const make = makeLinuxRelayWith({ workers: 4 })
    const { come, counters } = await setUp(t, make, 1, 1)
    const first = come()
    await once(first, 'data')
    const order: number[] = []
    const waiting: Socket[] = []
    for (let i = 0; i < 24; i += 1) {
      waiting.push(come().once('data', () => order.push(i)))
      await until('it waits', () => counters().queued === i + 1)
    }
    first.end()
    for (const [i, one] of waiting.entries()) {
      await until('its turn comes', () => order.length === i + 1)
      one.end()
    }
    t.strictSame(order, [...waiting.keys()])
  })

  t.test('places of workers that are no more are free, and nobody waits', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const { come, counters, faults } = await setUp(t, make, 1, 16)
    const clients = Array.from({ length: 64 }, come)
    const [served, open] = [new Set<Socket>(), new Set(clients)]
    for (const client of clients)
      client.once('data', () => served.add(client)).on('close', () => open.delete(client))
    await until('the others wait', () => served.size === 16 && counters().queued === 48)
    await tell(1)
    await until('it has died', () => faults.length === 1)
    await until('all are reset', () => open.size === 0)
    t.match(counters(), { active: 0, queued: 0 })
    const again = Array.from({ length: 17 }, come)
    await until('one waits, as before', () => counters().queued === 1)
    for (const client of again) client.destroy()
  })

  t.test('least connections: those of all workers count', async t => {
    const make = makeLinuxRelayWith({ workers: 4 })
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const backends = await Promise.all(['a', 'b', 'c'].map(name => namedEcho(t, name)))
    await listen({
      binds: [{ address: testHost, port }],
      endpoints: backends.map(backend => backend.endpoint),
      balance: { by: 'least-connections' },
    })
    for (let i = 0; i < 60; i += 1) await once(dial(t, port), 'data')
    t.strictSame(
      backends.map(({ sockets }) => sockets.size),
      [20, 20, 20],
    )
  })
})
