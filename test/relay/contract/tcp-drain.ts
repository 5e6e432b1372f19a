import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { ask, dial, namedEcho } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Endpoints that are drained: no new connections, and what becomes of the open ones. */
export const tcpDrainContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const a = await namedEcho(t, 'a')
    const b = await namedEcho(t, 'b')
    const endpoints = [a.endpoint, b.endpoint]
    const listen = (over: Partial<RelayListener> = {}) =>
      fixture.listen({ binds, endpoints, ...over })
    await listen()
    return { ...fixture, port, a, b, listen }
  }
  const open = async (
    t: Test,
    port: number,
  ): Promise<readonly [name: string, socket: Socket]> => {
    const socket = dial(t, port)
    const [name] = (await once(socket, 'data')) as [Buffer]
    return [String(name), socket]
  }
  const echoes = async (socket: Socket): Promise<string> => {
    socket.write('ping')
    const [said] = (await once(socket, 'data')) as [Buffer]
    return String(said)
  }
  const howItEnds = (socket: Socket): Promise<string> =>
    new Promise(resolve => {
      socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
      socket.on('end', () => resolve('end'))
    })
  /** Two connections, of which one goes to each endpoint. */
  const openBoth = async (t: Test, port: number) => {
    const both = new Map([await open(t, port), await open(t, port)])
    const [toA, toB] = [both.get('a'), both.get('b')]
    if (toA === undefined || toB === undefined) throw new Error('not one to each')
    return { toA, toB }
  }

  t.test('new ones go elsewhere, also by affinity, and open ones stay', async t => {
    const { port, a, b, listen, stats } = await setUp(t)
    const { toA } = await openBoth(t, port)
    const drained = [{ key: a.endpoint.key, close: 'none' }] as const
    await listen({ affinityMs: 60_000 })
    const [mine, socket] = await open(t, port)
    const own = mine === 'a' ? a : b
    await listen({
      affinityMs: 60_000,
      drained: [{ ...drained[0], key: own.endpoint.key }],
    })
    for (let i = 0; i < 4; i += 1) {
      const [name, next] = await open(t, port)
      t.not(name, mine)
      next.destroy()
    }
    t.equal(await echoes(socket), 'ping')
    t.equal(await echoes(toA), 'ping')
    await until('they are counted', () => {
      const figures = stats().endpoints.find(({ key }) => key === own.endpoint.key)
      return figures?.active === 2
    })
    await listen()
    const names = new Set<string>()
    await until('it has new ones again', async () => {
      const [name, next] = await open(t, port)
      next.destroy()
      return names.add(name).size === 2
    })
  })

  t.test('when all are drained clients are refused, or wait where they may', async t => {
    const { port, a, b, listen, stats, records } = await setUp(t)
    const { toA, toB } = await openBoth(t, port)
    const drained = [a, b].map(
      ({ endpoint: { key } }) => ({ key, close: 'none' }) as const,
    )
    await listen({ drained })
    t.match(await ask(port), { text: '', how: 'ECONNREFUSED' })
    const retry = { earlyClose: false, replay: 0, holdMs: 60_000 }
    await listen({ drained, retry })
    const waiting = open(t, port)
    await until('it waits', () => stats().counters.held === 1)
    t.equal(await echoes(toA), 'ping')
    t.equal(await echoes(toB), 'ping')
    await listen({ drained: drained.slice(1), retry })
    t.equal((await waiting)[0], 'a')
    t.strictSame(records, [])
  })

  t.test('a dial that is under way there comes to nothing', async t => {
    const { port, a, listen, stats, records } = await setUp(t)
    const silent = await silentBackend(t)
    await listen({ endpoints: [silent] })
    const answer = open(t, port)
    await until('it is dialled for', () => stats().counters.dialAttempts === 1)
    const endpoints = [silent, a.endpoint]
    await listen({ endpoints, drained: [{ key: silent.key, close: 'none' }] })
    const [name, socket] = await answer
    t.equal(name, 'a')
    socket.destroy()
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { attempts: [{ result: 'cancelled' }, { result: 'connected' }] })
  })

  t.test('its open ones are reset if that is asked for, listed or not', async t => {
    const { port, a, b, listen, records } = await setUp(t)
    const { toA, toB } = await openBoth(t, port)
    const ends = [toA, toB].map(howItEnds)
    await listen({ drained: [{ key: a.endpoint.key, close: 'all' }] })
    t.equal(await ends[0], 'ECONNRESET')
    t.equal(await echoes(toB), 'ping')
    await listen({
      endpoints: [a.endpoint],
      drained: [{ key: b.endpoint.key, close: 'all' }],
    })
    t.equal(await ends[1], 'ECONNRESET')
    await until('they are recorded', () => records.length === 2)
    for (const one of records)
      t.match(one, { cause: 'DD', detail: 'drained by an operator' })
  })

  t.test('as they are idle, those and no others', async t => {
    const { port, a, listen, records } = await setUp(t)
    const { toA, toB } = await openBoth(t, port)
    const busy = await open(t, port).then(async first =>
      first[0] === 'a' ? first[1] : (await open(t, port))[1],
    )
    const spared = howItEnds(toB)
    const ends = howItEnds(toA)
    const began = performance.now()
    const talk = setInterval(() => busy.write('x'), 300)
    t.teardown(() => clearInterval(talk))
    busy.resume()
    const drained = [{ key: a.endpoint.key, close: 'idle' }] as const
    await listen({ drained })
    // Its time goes on from the first order.
    await sleep(1000)
    await listen({ drained: [...drained] })
    t.equal(await ends, 'ECONNRESET')
    const tookMs = performance.now() - began
    t.ok(tookMs >= 4900, `not before: ${tookMs} ms`)
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'DD', detail: 'drained by an operator' })
    t.notOk(busy.destroyed, 'one that talks goes on')
    t.equal(
      await Promise.race([spared, Promise.resolve('open')]),
      'open',
      'so does one of another endpoint',
    )
    clearInterval(talk)
    const last = howItEnds(busy)
    await listen()
    t.equal(
      await Promise.race([last, sleep(6500, 'open')]),
      'open',
      'not drained any more',
    )
  })
}
