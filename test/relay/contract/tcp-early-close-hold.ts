import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type MakeRelay,
  type RelayRequest,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Clients that wait for an endpoint after another has closed early. */
export const tcpEarlyCloseHoldContract = (t: Test, make: MakeRelay): void => {
  /** Of two endpoints one closes early, and at the port of the other there is nothing yet. */
  const setUp = async (t: Test, holdMs: number, limits: RelayRequest['limits'] = {}) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [50, 50], ...limits } })
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const closeAfterQuestion = (socket: Socket) =>
      void socket.once('data', () => socket.resume().end())
    const early = await tcpBackend(t, closeAfterQuestion)
    const gone = await freeTcpPort()
    const endpoints = [early.endpoint, endpoint(testHost, gone)]
    const retry = { earlyClose: true, replay: 1000, holdMs }
    await fixture.listen({ binds, endpoints, retry })
    const held = () => fixture.stats().counters.held
    return { ...fixture, binds, port, gone, early, held }
  }

  /** All that it gets, and how it ended. */
  const fateOf = (client: Socket): Promise<string> =>
    new Promise(resolve => {
      let text = ''
      client.on('data', data => (text += data.toString()))
      client.on('end', () => resolve(`${text} end`))
      client.on('error', (error: NodeJS.ErrnoException) =>
        resolve(`${text} ${error.code}`),
      )
    })

  /** With what it was asked, `ms` after the first of it. */
  const answersLate = (ms: number) => (socket: Socket) => {
    let text = ''
    socket.on('data', data => (text += data.toString()))
    socket.once('data', () => setTimeout(() => socket.end(`${text}?`), ms))
  }

  t.test('one that has asked and ended its side is served', async t => {
    const { port, gone, held, relay, records } = await setUp(t, 20_000)
    const client = dial(t, port)
    const fate = fateOf(client)
    client.end('a question')
    await until('it waits', () => held() === 1)
    await sleep(1000)
    t.equal(records.length, 0, 'it waits still')
    await tcpBackend(t, answersLate(50), testHost, gone)
    t.equal(await fate, 'a question? end')
    await until('it is recorded', () => records.length === 1)
    t.equal(held(), 0)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  for (const limit of ['halfCloseTimeout', 'tcpIdleTimeout']) {
    t.test(`the time of a wait is none of ${limit}`, async t => {
      const limits = { [limit]: 800 }
      const { port, gone, held, records } = await setUp(t, 20_000, limits)
      const client = dial(t, port)
      const fate = fateOf(client)
      if (limit === 'halfCloseTimeout') client.end('a question')
      else client.write('a question')
      await until('it waits', () => held() === 1)
      await sleep(1000)
      t.equal(records.length, 0, 'it waits still')
      await tcpBackend(t, answersLate(400), testHost, gone)
      t.equal(await fate, 'a question? end')
      client.end()
      await until('it is recorded', () => records.length === 1)
      t.match(records[0], { cause: '--' })
    })
  }

  for (const [kind, question] of [
    ['garbage', 'GET / HTTP/1.1'],
    ['silence', ''],
  ] as const) {
    t.test(`${kind} is passed the end when each endpoint has had it once`, async t => {
      const { port, listen, binds, records, relay, allFailed } = await setUp(t, 20_000)
      const all = await Promise.all(
        [1, 2].map(() =>
          tcpBackend(t, socket => {
            if (question === '') setTimeout(() => socket.resume().end(), 400)
            else socket.once('data', () => socket.resume().end())
          }),
        ),
      )
      const endpoints = all.map((one, tier) => ({ ...one.endpoint, tier }))
      const retry = { earlyClose: true, replay: 1000, holdMs: 20_000 }
      await listen({ binds, endpoints, retry })
      const client = dial(t, port)
      if (question !== '') client.write(question)
      t.equal(await fateOf(client), ' end')
      client.end()
      await until('it is recorded', () => records.length === 1)
      t.strictSame(
        all.map(({ accepted }) => accepted),
        [1, 1],
      )
      t.equal(allFailed.length, 1)
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    })
  }

  t.test('who waits for an endpoint does not ask again the one that closed', async t => {
    const { port, held, early } = await setUp(t, 2500)
    const client = dial(t, port)
    const fate = fateOf(client)
    client.write('a question')
    await until('it waits', () => held() === 1)
    await fate
    t.equal(early.accepted, 1)
  })

  t.test('an end that is kept is dropped when its endpoint goes down', async t => {
    const { port, gone, held, listen, binds, relay } = await setUp(t, 1500)
    const ends = await tcpBackend(t, socket => void socket.end())
    const down = endpoint(testHost, gone)
    const retry = { earlyClose: true, replay: 0, holdMs: 1500 }
    await listen({ binds, endpoints: [ends.endpoint, down], retry })
    const client = dial(t, port)
    const fate = fateOf(client)
    await until('its end is kept', () => held() === 1 && ends.accepted > 0)
    await listen({ binds, endpoints: [down], cut: [ends.endpoint.key], retry })
    await until('none is kept', () => carryingFds(relay.stats()) === 2)
    t.equal(await fate, ' ECONNRESET')
  })

  t.test('one that resets while it is not read frees its place', async t => {
    const fixture = await setUp(t, 20_000, { connectionBuffer: 1024 })
    const client = dial(t, fixture.port)
    client.on('error', () => {})
    const retry = { earlyClose: false, replay: 0, holdMs: 20_000 }
    const { binds, gone, held, listen, records, relay } = fixture
    await listen({ binds, endpoints: [endpoint(testHost, gone)], retry })
    client.write(Buffer.alloc(100_000))
    await until('it waits', () => held() === 1)
    await sleep(300)
    reset(client)
    await until('it has gone', () => records.length === 1)
    t.match(records[0], { cause: 'CC' })
    t.equal(held(), 0)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('a wait begins at the accept, however many endpoints close early', async t => {
    const { port, gone, held, listen, binds, early } = await setUp(t, 2000)
    const more = await freeTcpPort()
    const began = performance.now()
    const client = dial(t, port)
    const fate = fateOf(client)
    client.write('a question')
    await until('it waits', () => held() === 1)
    await sleep(1300)
    const endpoints = [early.endpoint, endpoint(testHost, gone), endpoint(testHost, more)]
    const retry = { earlyClose: true, replay: 1000, holdMs: 2000 }
    await listen({ binds, endpoints, retry })
    await tcpBackend(t, socket => void socket.end(), testHost, gone)
    await fate
    t.ok(performance.now() - began < 2700, `${performance.now() - began} ms`)
    t.equal(held(), 0)
  })
}
