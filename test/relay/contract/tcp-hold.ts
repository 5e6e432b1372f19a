import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint, RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  listenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { ask, dial, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const never = { earlyClose: false, replay: 0 }

/** Clients that wait for an endpoint to come back. */
export const tcpHoldContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, holdMs: number, mostHeld?: number) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [50, 50] } })
    const port = await freeTcpPort()
    const gone = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const listen = (endpoints = [endpoint(testHost, gone)]) =>
      fixture.listen({ binds, endpoints, retry: { ...never, holdMs, mostHeld } })
    await listen()
    const counters = () => fixture.stats().counters
    const held = () => counters().held
    return { ...fixture, port, gone, listen, counters, held }
  }

  t.test('they are served when one is there, and nothing is left of it', async t => {
    const { port, gone, records, relay, held, counters } = await setUp(t, 20_000)
    const answers = Array.from({ length: 20 }, () => ask(port))
    await until('they wait', () => held() === 20)
    await sleep(300)
    await tcpBackend(t, socket => void socket.end('back'), testHost, gone)
    for (const { text, how } of await Promise.all(answers)) {
      t.equal(`${text} ${how}`, 'back end')
    }
    t.equal(held(), 0)
    await until('they are recorded', () => records.length === 20)
    for (const { cause } of records) t.equal(cause, '--')
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    const { holdSeconds, holdSecondsSum } = counters()
    const [first = 0, second = 0, third = 0] = holdSeconds
    t.equal(first + second + third, 20, `${holdSeconds.join(' ')} have waited`)
    t.ok(holdSecondsSum > 20 * 0.2 && holdSecondsSum < 20 * 2.5, `${holdSecondsSum} s`)
  })

  t.test('they wait from when all endpoints have refused', async t => {
    const limits = { dialLadder: [60_000, 60_000] }
    const { listen, stats } = relayFixture(t, make, { limits })
    const [port, gone] = [await freeTcpPort(), await freeTcpPort()]
    const endpoints = [endpoint(testHost, gone)]
    const retry = { ...never, holdMs: 120_000 }
    await listen({ binds: [{ address: testHost, port }], endpoints, retry })
    const client = dial(t, port)
    await until('it waits', () => stats().counters.held === 1)
    t.equal(stats().counters.dialAttempts, 1, 'the first step is not over')
    reset(client)
    await until('it has left', () => stats().counters.held === 0)
  })

  t.test('they wait also where there is no endpoint at all', async t => {
    const { port, listen, held } = await setUp(t, 20_000)
    await listen([])
    const answer = ask(port)
    await until('it waits', () => held() === 1)
    const alive = await namedBackend(t, 'alive')
    await listen([alive.endpoint])
    t.match(await answer, { text: 'alive', how: 'end' })
  })

  t.test('silent endpoints are asked in rounds, and hold no descriptors', async t => {
    const { port, listen, held, relay } = await setUp(t, 20_000)
    const silent = await silentBackend(t)
    await listen([silent])
    const answer = ask(port)
    await until('it waits', () => held() === 1)
    await sleep(1500)
    t.ok(carryingFds(relay.stats()) <= 4, `${carryingFds(relay.stats())} descriptors`)
    const alive = await namedBackend(t, 'alive')
    await listen([silent, alive.endpoint])
    t.match(await answer, { text: 'alive', how: 'end' })
  })

  for (const says of ['before', 'while'])
    t.test(`what they have said ${says} they wait comes with them`, async t => {
      const { port, gone, held } = await setUp(t, 20_000)
      const client = dial(t, port)
      if (says === 'before') client.end('a question')
      await until('it waits', () => held() === 1)
      if (says === 'while') client.end('a question')
      await sleep(200)
      t.equal(held(), 1, 'it has ended its side, and has said something')
      const heard: Buffer[] = []
      const serve = (socket: Socket) =>
        void socket
          .on('data', data => heard.push(data))
          .on('end', () => socket.end('an answer'))
      await tcpBackend(t, serve, testHost, gone)
      const [answer] = (await once(client, 'data')) as [Buffer]
      t.equal(answer.toString(), 'an answer')
      t.equal(Buffer.concat(heard).toString(), 'a question')
    })

  t.test('when the time is over they are reset', async t => {
    const { port, records, relay, held, stats } = await setUp(t, 700)
    const began = performance.now()
    t.match(await ask(port), { text: '', how: 'ECONNRESET' })
    t.ok(performance.now() - began > 650, 'not before')
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'SC' })
    const { attempts = [] } = records[0] ?? {}
    t.ok(attempts.length < stats().counters.dialAttempts, 'not all rounds are recorded')
    t.equal(held(), 0)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('one more than may wait is refused', async t => {
    const { port, records, held, counters } = await setUp(t, 20_000, 2)
    const two = [dial(t, port), dial(t, port)]
    for (const one of two) one.on('error', () => {})
    await until('two wait', () => held() === 2)
    t.match(await ask(port), { how: 'ECONNRESET' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0]?.detail, /too many clients wait/)
    t.match(counters(), { held: 2, holdRefused: 1, holdSecondsSum: 0 })
  })

  t.test('one that leaves frees its place', async t => {
    const { port, records, held, relay } = await setUp(t, 20_000, 3)
    const [ends, resets, first] = [dial(t, port), dial(t, port), dial(t, port)]
    first.end()
    for (const one of [ends, resets, first]) one.on('error', () => {})
    await until('the one that had ended before has gone', () => records.length === 1)
    await until('two wait', () => held() === 2)
    ends.end()
    await until('one has left', () => held() === 1)
    reset(resets)
    await until('both have left', () => held() === 0)
    await until('they are recorded', () => records.length === 3)
    for (const { cause } of records) t.equal(cause, 'CC')
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    for (let i = 0; i < 3; i += 1) dial(t, port).on('error', () => {})
    await until('three others wait', () => held() === 3)
  })

  t.test('1000 that leave at once free all places, and hold up nobody', async t => {
    const { port, gone, records, relay, held } = await setUp(t, 60_000, 1000)
    const alive = await namedBackend(t, 'alive')
    const beside = await freeTcpPort()
    const listener = (id: string, at: number, one: RelayEndpoint): RelayListener =>
      listenerSpec({
        id,
        binds: [{ address: testHost, port: at }],
        endpoints: [one],
        retry: { ...never, holdMs: 60_000, mostHeld: 1000 },
      })
    await relay.apply([
      listener('test', port, endpoint(testHost, gone)),
      listener('beside', beside, alive.endpoint),
    ])
    for (let round = 1; round <= 2; round += 1) {
      const clients = Array.from({ length: 1000 }, () => dial(t, port))
      for (const client of clients) client.on('error', () => {})
      await until('all wait', () => held() === 1000)
      for (const [i, client] of clients.entries()) {
        if (i % 3 === 0) client.destroy()
        else if (i % 3 === 1) reset(client)
        else client.end()
      }
      const began = performance.now()
      t.match(await ask(beside), { text: 'alive' })
      const ms = performance.now() - began
      t.ok(ms < 10_000, `another is served meanwhile, within ${ms} ms`)
      await until('all places are free', () => held() === 0)
      const all = round * 1001
      await until('all are recorded', () => records.length === all)
    }
    t.equal(records.filter(({ cause }) => cause === 'CC').length, 2000)
    await until('nothing is left', () => carryingFds(relay.stats()) === 0)
  })

  t.test('a listener that goes leaves no place taken', async t => {
    const { port, relay, held, listen } = await setUp(t, 1000, 2)
    const two = [ask(port), ask(port)]
    await until('two wait', () => held() === 2)
    await relay.apply([])
    t.equal(held(), 2, 'they wait on')
    for (const { how } of await Promise.all(two)) t.equal(how, 'ECONNRESET')
    await until('it is gone', () => [...relay.stats().listeners].length === 0)
    t.equal(relay.stats().fds.used, 0)
    await listen()
    t.equal(held(), 0)
    const others = [ask(port), ask(port)]
    await until('two others wait', () => held() === 2)
    await Promise.all(others)
    t.equal(held(), 0)
  })

  t.test('a drain ends them when its time is over', async t => {
    const { port, held, relay } = await setUp(t, 20_000)
    const answer = ask(port)
    await until('it waits', () => held() === 1)
    t.strictSame(await relay.drain(100), { reset: 1 })
    t.match(await answer, { how: 'ECONNRESET' })
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })
}
