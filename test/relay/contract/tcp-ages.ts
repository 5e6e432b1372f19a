import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { ConnectionAges } from '../../../src/model/traffic.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** How long connections may be idle, and how long they last. */
export const tcpAgesContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (
    t: Test,
    first: ConnectionAges | undefined,
    tcpIdleTimeout = 0,
  ) => {
    const fixture = relayFixture(t, make, { limits: { tcpIdleTimeout } })
    const backend = await echoBackend(t)
    const port = await freeTcpPort()
    const listen = (ages: ConnectionAges | undefined) =>
      fixture.listen({
        binds: [{ address: testHost, port }],
        endpoints: [backend.endpoint],
        ages,
      })
    await listen(first)
    const connect = async () => {
      const socket = dial(t, port)
      const begun = Date.now()
      const ended = { how: '', after: 0 }
      socket.on('error', ({ message }) => (ended.how = message))
      socket.on('close', () => (ended.after = Date.now() - begun))
      await once(socket, 'connect')
      const say = async () => {
        socket.write('x')
        await once(socket, 'data')
      }
      await say()
      return { socket, say, ended }
    }
    return { ...fixture, listen, connect }
  }

  t.test('an idle time of its own, in place of the one for all', async t => {
    const { connect, records, stats } = await setUp(t, { idleMs: 1000 }, 60_000)
    const [idle, busy] = [await connect(), await connect()]
    for (let i = 0; i < 10; i += 1) {
      await sleep(250)
      await busy.say()
    }
    await until('the idle one is reset', () => idle.ended.how !== '')
    t.ok(idle.ended.after >= 1000, `${idle.ended.after} ms`)
    t.equal(busy.ended.how, '')
    await until('it is told of', () => records.length === 1)
    t.match(stats().counters, { failed: { cD: 1 }, active: 1 })
    t.match(records, [{ cause: 'cD' }])
  })

  t.test('longer than the one for all, and one that comes later', async t => {
    const { connect, listen } = await setUp(t, { idleMs: 60_000 }, 1000)
    const one = await connect()
    await sleep(2500)
    await one.say()
    await listen({ idleMs: 1000 })
    await until('it is reset', () => one.ended.how !== '')
  })

  t.test('a lifetime ends what is quiet', async t => {
    const { connect, records, stats } = await setUp(t, { lifetimeMs: 2000 })
    const [quiet, busy] = [await connect(), await connect()]
    for (let i = 0; i < 20; i += 1) {
      await sleep(200)
      await busy.say()
    }
    await until('the quiet one is reset', () => quiet.ended.how !== '')
    t.ok(quiet.ended.after >= 1800, `${quiet.ended.after} ms`)
    t.equal(busy.ended.how, '', 'the other is not, while bytes move')
    await until('and then it is', () => busy.ended.how !== '')
    await until('both are told of', () => records.length === 2)
    t.match(stats().counters, { failed: { LD: 2 }, active: 0 })
    t.match(records, [
      { cause: 'LD', detail: 'lifetime over' },
      { cause: 'LD', detail: 'lifetime over' },
    ])
  })

  t.test('a lifetime that comes later, and goes', async t => {
    const { connect, listen } = await setUp(t, undefined)
    const one = await connect()
    await listen({ lifetimeMs: 2000 })
    await listen(undefined)
    await sleep(3500)
    await one.say()
    await listen({ lifetimeMs: 1000 })
    await until('it is reset', () => one.ended.how !== '')
  })
}
