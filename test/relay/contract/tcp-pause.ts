import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  type defaultLimits,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { ask, dial, namedBackend, namedEcho } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Listeners that are paused: their clients wait. */
export const tcpPauseContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, limits: Partial<typeof defaultLimits> = {}) => {
    const fixture = relayFixture(t, make, { limits })
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const backend = await namedEcho(t, 'alive')
    const listen = (over: Partial<RelayListener> = {}) =>
      fixture.listen({ binds, endpoints: [backend.endpoint], ...over })
    await listen()
    const held = () => fixture.stats().counters.held
    return { ...fixture, port, backend, listen, held }
  }
  const open = async (t: Test, port: number): Promise<Socket> => {
    const socket = dial(t, port)
    await once(socket, 'data')
    return socket
  }
  const howItEnds = (socket: Socket): Promise<string> =>
    new Promise(resolve => {
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
      socket.on('end', () => resolve('end'))
    })

  t.test('clients wait, others go on, and all are served by and by', async t => {
    const { port, backend, listen, held, relay } = await setUp(t)
    const before = await open(t, port)
    await listen({ paused: true })
    const served: number[] = []
    const waiting = Array.from({ length: 40 }, async () => {
      const socket = await open(t, port)
      served.push(performance.now())
      socket.end('said').resume()
      await once(socket, 'end')
    })
    await until('they wait', () => held() === 40)
    before.write('still there')
    t.equal(String(await once(before, 'data')), 'still there')
    await sleep(1200)
    t.equal(backend.accepted, 1, 'nothing is dialled for those that wait')
    await listen()
    await Promise.all(waiting)
    t.equal(backend.accepted, 41)
    const [first, last] = [Math.min(...served), Math.max(...served)]
    t.ok(last - first > 300, `not at the same instant: ${last - first} ms`)
    t.equal(held(), 0)
    before.destroy()
    await until('nothing is left of them', () => carryingFds(relay.stats()) === 0)
  })

  t.test('a listener without an endpoint is open while it is paused', async t => {
    const { port, backend, listen, held } = await setUp(t)
    await listen({ paused: true, endpoints: [] })
    const answer = open(t, port)
    await until('it waits', () => held() === 1)
    await listen({ endpoints: [backend.endpoint] })
    t.ok(await answer)
  })

  t.test('dials under way end, and their clients wait', async t => {
    const { port, backend, listen, held, stats, records } = await setUp(t)
    const silent = await silentBackend(t)
    await listen({ endpoints: [silent] })
    const answer = open(t, port)
    await until('it is dialled for', () => stats().counters.dialAttempts === 1)
    await listen({ endpoints: [silent], paused: true })
    await until('it waits', () => held() === 1)
    await listen({ endpoints: [backend.endpoint] })
    ;(await answer).destroy()
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { endpoint: backend.endpoint.key })
  })

  t.test('those that are open are reset if that is asked for, and no others', async t => {
    const { port, listen, held, records, relay } = await setUp(t)
    const ends = (await Promise.all([open(t, port), open(t, port)])).map(howItEnds)
    await listen({ paused: true })
    const waiting = open(t, port)
    await until('one waits', () => held() === 1)
    // Also those to endpoints that are not listed any more.
    await listen({ paused: true, endpoints: [] })
    await listen({ paused: true, endpoints: [], cut: 'all' })
    t.strictSame(await Promise.all(ends), ['ECONNRESET', 'ECONNRESET'])
    await until('they are recorded', () => records.length === 2)
    for (const record of records) t.match(record, { cause: 'DD', detail: 'paused' })
    t.equal(held(), 1)
    await listen()
    const socket = await waiting
    socket.destroy()
    await until('nothing is left of them', () => carryingFds(relay.stats()) === 0)
  })

  t.test('they wait as long as their hold, and then are reset', async t => {
    const { port, backend, listen, held, records } = await setUp(t)
    const retry = { earlyClose: false, replay: 0, holdMs: 600 }
    await listen({ paused: true, retry })
    const began = performance.now()
    t.match(await ask(port), { text: '', how: 'ECONNRESET' })
    t.ok(performance.now() - began > 550, 'not before')
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'SC', detail: 'paused', attempts: [] })
    t.equal(backend.accepted, 0)
    t.equal(held(), 0)
  })

  t.test('nobody waits for the end of a pause that nobody can end', async t => {
    const goes = await setUp(t)
    await goes.listen({ paused: true })
    const waiting = ask(goes.port)
    await until('it waits', () => goes.held() === 1)
    await goes.relay.apply([])
    t.match(await waiting, { text: '', how: 'ECONNRESET' }, 'the listener has gone')
    await until('it is recorded', () => goes.records.length === 1)
    t.match(goes.records[0], { cause: 'SC', detail: 'paused', attempts: [] })

    const drains = await setUp(t)
    const before = await open(t, drains.port)
    const retry = { earlyClose: false, replay: 0, holdMs: 60_000 }
    await drains.listen({ paused: true, retry })
    const last = ask(drains.port)
    await until('it waits', () => drains.held() === 1)
    const drained = drains.relay.drain(60_000)
    t.match(await last, { text: '', how: 'ECONNRESET' }, 'the relay ends')
    before.end('said').resume()
    await once(before, 'end')
    t.match(await drained, { reset: 0 }, 'others have their time')
  })

  t.test('so many wait and no more, and one that leaves frees its place', async t => {
    const { port, listen, held, records } = await setUp(t)
    const retry = { earlyClose: false, replay: 0, mostHeld: 2 }
    await listen({ paused: true, retry })
    const [one, two] = [dial(t, port), dial(t, port)]
    for (const socket of [one, two]) socket.on('error', () => {})
    await until('two wait', () => held() === 2)
    t.match(await ask(port), { how: 'ECONNRESET' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'SC', detail: 'too many clients wait; paused' })
    one.destroy()
    await until('one has left', () => held() === 1)
    const other = open(t, port)
    await until('two wait again', () => held() === 2)
    await listen({ retry })
    t.ok(await other)
  })

  t.test('after it a dial has all of its time', async t => {
    const { port, listen, held, stats } = await setUp(t, { dialLadder: [100, 100, 4000] })
    const silent = await silentBackend(t)
    await listen({ endpoints: [silent], paused: true })
    const answer = ask(port)
    await until('it waits', () => held() === 1)
    await listen({ endpoints: [silent] })
    await until('it is dialled for', () => stats().counters.dialAttempts >= 3)
    const late = await namedBackend(t, 'late')
    await listen({ endpoints: [late.endpoint] })
    t.equal(held(), 1, 'the dial goes on')
    await listen({ endpoints: [late.endpoint], paused: true })
    await listen({ endpoints: [late.endpoint] })
    t.match(await answer, { text: 'late', how: 'end' })
  })
}
