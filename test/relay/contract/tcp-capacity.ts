import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { CapacityOptions } from '../../../src/model/traffic.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { ask, dial, namedEcho, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const usual: CapacityOptions = { maxConnections: 1, queueMs: 20_000, mostQueued: 1024 }

/** How many connections an endpoint may have, and who waits for a place. */
export const tcpCapacityContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (
    t: Test,
    names: string,
    capacity: Partial<CapacityOptions> = {},
    limits: RelayRequest['limits'] = {},
  ) => {
    const fixture = relayFixture(t, make, { limits })
    const port = await freeTcpPort()
    const backends = await Promise.all(names.split('').map(name => namedEcho(t, name)))
    const spec: ListenerSpec = {
      binds: [{ address: testHost, port }],
      endpoints: backends.map(backend => backend.endpoint),
      capacity: { ...usual, ...capacity },
    }
    await fixture.listen(spec)
    const counters = () => fixture.stats().counters
    const queued = () => counters().queued
    const come = (): Socket => dial(t, port).on('error', () => {})
    return { ...fixture, port, backends, spec, counters, queued, come }
  }

  const isAnswered = async (socket: Socket): Promise<string> => {
    const [word] = (await once(socket, 'data')) as [Buffer]
    return word.toString()
  }

  t.test('no endpoint has one more than it may, and all are served', async t => {
    const { backends, come, counters, queued, relay, records } = await setUp(t, 'abc', {
      maxConnections: 2,
    })
    const most = backends.map(() => 0)
    for (const [i, { server, sockets }] of backends.entries())
      server.on('connection', () => (most[i] = Math.max(most[i] ?? 0, sockets.size)))
    const served = Array.from({ length: 60 }, async () => {
      const client = come()
      await isAnswered(client)
      await sleep(5)
      client.end()
      await once(client, 'close')
    })
    await until('some wait', () => queued() > 0)
    await Promise.all(served)
    t.strictSame(most, [2, 2, 2])
    t.match(counters(), { queued: 0, queueRefused: 0, accepted: 60 })
    await until('they are recorded', () => records.length === 60)
    for (const { cause } of records) t.equal(cause, '--')
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('first come, first served', async t => {
    const { come, queued } = await setUp(t, 'a')
    const first = come()
    await isAnswered(first)
    const order: number[] = []
    const waiting: Socket[] = []
    for (let i = 0; i < 8; i += 1) {
      const one = come()
      waiting.push(one.once('data', () => order.push(i)))
      await until('it waits', () => queued() === i + 1)
    }
    first.end()
    for (const [i, one] of waiting.entries()) {
      await until('its turn comes', () => order.length === i + 1)
      one.end()
    }
    t.strictSame(order, [0, 1, 2, 3, 4, 5, 6, 7])
  })

  t.test('who comes while others wait does not go before them', async t => {
    const { come, queued, backends } = await setUp(t, 'a')
    const first = come()
    await isAnswered(first)
    const second = come()
    await until('it waits', () => queued() === 1)
    const served = isAnswered(second)
    first.end()
    const third = come()
    t.equal(await served, 'a')
    await until('the third waits', () => queued() === 1)
    t.equal(backends[0]?.accepted, 2)
    second.end()
    t.equal(await isAnswered(third), 'a')
  })

  t.test('when the time is over they are reset', async t => {
    const { come, port, records, queued } = await setUp(t, 'a', { queueMs: 300 })
    await isAnswered(come())
    const began = performance.now()
    t.match(await ask(port), { text: '', how: 'ECONNRESET' })
    t.ok(performance.now() - began > 250, 'not before')
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'sQ', endpoint: '', detail: 'all endpoints are full' })
    t.equal(queued(), 0)
  })

  t.test('one more than may wait is refused', async t => {
    const { come, port, records, queued, counters } = await setUp(t, 'a', {
      mostQueued: 2,
    })
    await isAnswered(come())
    come()
    come()
    await until('two wait', () => queued() === 2)
    t.match(await ask(port), { how: 'ECONNRESET' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'sQ', detail: /too many clients are queued/ })
    t.match(counters(), { queued: 2, queueRefused: 1 })
  })

  t.test('those that leave are not waited for', async t => {
    const { come, queued, records } = await setUp(t, 'a')
    const first = come()
    await isAnswered(first)
    const [ends, resets] = [come(), come()]
    await until('they wait', () => queued() === 2)
    const last = come()
    await until('the last one, too', () => queued() === 3)
    ends.end()
    reset(resets)
    await until('two have left', () => queued() === 1)
    await until('they are recorded', () => records.length === 2)
    for (const { cause } of records) t.equal(cause, 'CC')
    first.end()
    t.equal(await isAnswered(last), 'a')
  })

  t.test('what they say while they wait comes with them', async t => {
    const { come, queued } = await setUp(t, 'a')
    const first = come()
    await isAnswered(first)
    const client = come()
    client.end('a question')
    await until('it waits', () => queued() === 1)
    let heard = ''
    client.on('data', chunk => (heard += chunk.toString()))
    first.end()
    await once(client, 'end')
    t.equal(heard, 'aa question')
  })

  t.test('a full endpoint is not down: the next tier is not for that', async t => {
    const { listen, spec, come, queued, backends } = await setUp(t, 'ab')
    const [a, b] = backends
    if (a === undefined || b === undefined) throw new Error('there are two')
    await listen({ ...spec, endpoints: [a.endpoint, { ...b.endpoint, tier: 1 }] })
    const first = come()
    t.equal(await isAnswered(first), 'a')
    const second = come()
    await until('it waits', () => queued() === 1)
    await a.close()
    first.destroy()
    t.equal(await isAnswered(second), 'b', 'but for that it is gone')
  })

  t.test('nor is an endpoint of weight 0', async t => {
    const { listen, spec, come, queued, backends } = await setUp(t, 'ab')
    const [a, b] = backends.map(backend => backend.endpoint)
    if (a === undefined || b === undefined) throw new Error('there are two')
    await listen({ ...spec, endpoints: [a, { ...b, weight: 0 }] })
    t.equal(await isAnswered(come()), 'a')
    come()
    await until('the next one waits', () => queued() === 1)
  })

  t.test('one that refuses is not tried again while others are full', async t => {
    const { listen, spec, come, queued, backends, counters } = await setUp(t, 'a')
    const [a] = backends
    if (a === undefined) throw new Error('there is one')
    const gone = endpoint(testHost, await freeTcpPort())
    await listen({ ...spec, endpoints: [a.endpoint, gone] })
    const first = come()
    t.equal(await isAnswered(first), 'a')
    const second = come()
    await until('it waits', () => queued() === 1)
    await sleep(200)
    t.ok(counters().dialAttempts <= 4, `${counters().dialAttempts} attempts`)
    first.end()
    t.equal(await isAnswered(second), 'a')
  })

  t.test(
    'who waits for a full one while others refuse waits no longer for that',
    async t => {
      const { listen, spec, come, backends, port } = await setUp(t, 'a', {
        queueMs: 2500,
      })
      const [a] = backends
      if (a === undefined) throw new Error('there is one')
      const gone = endpoint(testHost, await freeTcpPort())
      await listen({ ...spec, endpoints: [a.endpoint, gone] })
      t.equal(await isAnswered(come()), 'a')
      const began = performance.now()
      const waits = ask(port)
      t.match(await Promise.race([waits, sleep(6000)]), { how: 'ECONNRESET' })
      t.ok(performance.now() - began > 2400, 'not before')
    },
  )

  t.test('the time in which endpoints are tried begins after the wait', async t => {
    const limits = { dialLadder: [1000] }
    const { listen, spec, come, queued, backends } = await setUp(t, 'ab', {}, limits)
    const [a, b] = backends.map(backend => backend.endpoint)
    if (a === undefined || b === undefined) throw new Error('there are two')
    await listen({ ...spec, endpoints: [a] })
    t.equal(await isAnswered(come()), 'a')
    const second = come()
    await until('it waits', () => queued() === 1)
    await sleep(1200)
    const gone = endpoint(testHost, await freeTcpPort())
    await listen({ ...spec, endpoints: [gone, { ...b, tier: 1 }] })
    t.equal(await isAnswered(second), 'b')
  })

  t.test('no endpoint is dialled without a pause while all rest or are full', async t => {
    const { listen, spec, come, queued, counters } = await setUp(t, 'a')
    // Accepts, and has no answer: it rests, and its place is taken for as long as it may have one.
    const silent = await tcpBackend(t, socket => void socket.resume())
    const gone = endpoint(testHost, await freeTcpPort())
    const retry = { earlyClose: true, replay: 1024, answerMs: 100, holdMs: 10_000 }
    await listen({ ...spec, endpoints: [silent.endpoint, gone], retry })
    for (let i = 0; i < 4; i += 1) come().write('x')
    await until('some wait', () => queued() > 1)
    const before = counters().dialAttempts
    await sleep(1000)
    const dials = counters().dialAttempts - before
    t.ok(dials < 100, `${dials} dials`)
  })

  t.test('who waits for one endpoint of several is not waited for', async t => {
    const { listen, spec, come, queued, backends } = await setUp(t, 'a')
    const [a] = backends
    if (a === undefined) throw new Error('there is one')
    const choosy = await tcpBackend(t, socket => {
      socket.once('data', chunk =>
        chunk.toString() === 'no' ? socket.destroy() : socket.write('c'),
      )
    })
    const retry = { earlyClose: true, replay: 1024 }
    await listen({ ...spec, retry })
    t.equal(await isAnswered(come()), 'a')
    await listen({ ...spec, endpoints: [a.endpoint, choosy.endpoint], retry })
    come().write('no')
    await until('it waits for the other', () => queued() === 1)
    // The one that it has left rests for a second.
    await sleep(1200)
    const last = come()
    last.write('yes')
    t.equal(await Promise.race([isAnswered(last), sleep(3000)]), 'c')
    t.equal(queued(), 1)
  })

  t.test('no place is lost by failed dials, early closes and resets', async t => {
    const { listen, spec, come, backends, queued } = await setUp(t, 'a', {
      queueMs: 5000,
    })
    const [a] = backends
    if (a === undefined) throw new Error('there is one')
    const closes = await tcpBackend(t, socket => void socket.end())
    const gone = endpoint(testHost, await freeTcpPort())
    const retry = { earlyClose: true, replay: 0 }
    const endpoints = [closes.endpoint, gone, a.endpoint]
    await listen({ ...spec, endpoints, retry })
    for (let i = 0; i < 20; i += 1) {
      const client = come()
      t.equal(await isAnswered(client), 'a')
      if (i % 2 === 0) reset(client)
      else client.end()
    }
    await until('nobody waits', () => queued() === 0)
  })

  t.test('when the limit goes or grows, those that wait are served', async t => {
    const { listen, spec, come, queued } = await setUp(t, 'a')
    await isAnswered(come())
    const clients = Array.from({ length: 5 }, come)
    await until('they wait', () => queued() === 5)
    const served = clients.map(isAnswered)
    await listen({ ...spec, capacity: { ...usual, maxConnections: 3 } })
    await until('two are served', () => queued() === 3)
    await listen({ ...spec, capacity: undefined })
    t.strictSame(await Promise.all(served), ['a', 'a', 'a', 'a', 'a'])
  })

  t.test('connections from before a limit count', async t => {
    const { listen, spec, come, queued } = await setUp(t, 'a')
    await listen({ ...spec, capacity: undefined })
    const first = come()
    await isAnswered(first)
    await listen(spec)
    const second = come()
    await until('it waits', () => queued() === 1)
    first.end()
    t.equal(await isAnswered(second), 'a')
  })

  t.test('those whose endpoint has reset them before a limit have no place', async t => {
    const { listen, spec, come, counters } = await setUp(t, '')
    // More than a client takes that does not read, and less than the kernel keeps for it.
    const much = Buffer.alloc(1 << 20)
    const backend = await tcpBackend(t, socket => {
      socket.write(backend.accepted === 1 ? much : 'b')
    })
    const endpoints = [backend.endpoint]
    await listen({ ...spec, endpoints, capacity: undefined })
    const slow = come()
    await once(slow, 'readable')
    await sleep(300)
    for (const socket of backend.sockets) reset(socket)
    await until('the endpoint has none', () => backend.sockets.size === 0)
    await sleep(100)
    t.equal(counters().active, 1, 'the client has yet to read')
    await listen({ ...spec, endpoints })
    t.equal(await isAnswered(come()), 'b')
    slow.destroy()
  })

  t.test('connections of a drained endpoint count when it is back', async t => {
    const { listen, spec, come, queued, backends } = await setUp(t, 'a')
    await listen({ ...spec, capacity: undefined })
    const first = come()
    await isAnswered(first)
    const key = backends[0]?.endpoint.key ?? ''
    await listen({ ...spec, drained: [{ key, close: 'none' }] })
    await listen(spec)
    const second = come()
    await until('it waits', () => queued() === 1)
    first.end()
    t.equal(await isAnswered(second), 'a')
  })

  t.test('when the limit goes with the endpoints that were full', async t => {
    const { listen, spec, come, queued, backends } = await setUp(t, 'a')
    const [a] = backends
    if (a === undefined) throw new Error('there is one')
    const port = await freeTcpPort()
    const gone = endpoint(testHost, port)
    await listen({ ...spec, endpoints: [a.endpoint, gone] })
    t.equal(await isAnswered(come()), 'a')
    const waiting = [come(), come()]
    await until('they wait', () => queued() === 2)
    await listen({ ...spec, endpoints: [gone], capacity: undefined })
    t.equal(queued(), 0)
    const served = waiting.map(isAnswered)
    await namedEcho(t, 'g', testHost, port)
    t.strictSame(await Promise.all(served), ['g', 'g'])
  })

  t.test('an endpoint that went and is back has its connections still', async t => {
    const { listen, spec, come, queued } = await setUp(t, 'a')
    const first = come()
    await isAnswered(first)
    await listen({ ...spec, endpoints: [] })
    await listen(spec)
    const second = come()
    await until('it waits', () => queued() === 1)
    first.end()
    t.equal(await isAnswered(second), 'a')
  })
}
