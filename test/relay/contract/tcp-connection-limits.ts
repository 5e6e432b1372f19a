import type { Socket } from 'node:net'
import type { Test } from 'tap'
import type { ConnectionLimits } from '../../../src/model/traffic.ts'
import { onLinux, withIpv6 } from '../../support/connection.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Clients of a listener with limits, whose backend greets nobody and echoes. */
export const limitedListener = async (
  t: Test,
  make: MakeRelay,
  limits: ConnectionLimits | undefined,
  host = testHost,
) => {
  const fixture = relayFixture(t, make)
  const backend = await echoBackend(t, host)
  const port = await freeTcpPort(host)
  const listen = (now: ConnectionLimits | undefined) =>
    fixture.listen({
      binds: [{ address: host, port }],
      endpoints: [backend.endpoint],
      limits: now,
    })
  await listen(limits)
  /** Those that are served; of the others there is a count. */
  const served = new Set<Socket>()
  let refused = 0
  let pending = 0
  const settled = () => until('all are served or refused', () => pending === 0)
  const come = async (count: number, from?: string): Promise<void> => {
    for (let i = 0; i < count; i += 1) {
      pending += 1
      let isServed = false
      const socket = dial(t, port, host, from)
      socket.on('connect', () => socket.write('x'))
      socket.on('data', () => {
        if (!isServed) pending -= 1
        isServed = true
        served.add(socket)
      })
      socket.on('error', () => {})
      socket.on('close', () => {
        served.delete(socket)
        if (isServed) return
        pending -= 1
        refused += 1
      })
    }
    await settled()
  }
  const counters = () => fixture.stats().counters
  const leave = async (count: number): Promise<void> => {
    const left = counters().active - count
    for (const socket of [...served].slice(0, count)) socket.destroy()
    await until('they have left', () => counters().active === left)
  }
  return { ...fixture, listen, come, leave, served, counters, refused: () => refused }
}

const [near, far] = ['127.0.0.11', '127.0.0.12']

/** How many connections a listener takes, in all and of a client. */
export const connectionLimitsContract = (t: Test, make: MakeRelay): void => {
  const setUp = (t: Test, limits: ConnectionLimits | undefined, host?: string) =>
    limitedListener(t, make, limits, host)

  t.test('connections of a route', async t => {
    const { come, leave, served, refused, counters, records } = await setUp(t, {
      routeConnections: 5,
    })
    await come(12)
    t.equal(served.size, 5)
    t.equal(refused(), 7)
    t.match(counters(), { accepted: 12, active: 5, failed: { PL: 7 }, dialAttempts: 5 })
    await until('they are told of', () => records.length === 7)
    t.match(records[0], { cause: 'PL', detail: 'max-route-connections', endpoint: '' })
    t.match(records[0]?.client, /^127\.0\.0\.1:\d+$/)
    await leave(2)
    await come(3)
    t.equal(served.size, 5)
  })

  t.test('limits that are lowered, raised, gone and back', async t => {
    const { listen, come, leave, served, counters } = await setUp(t, undefined)
    await come(6)
    await listen({ routeConnections: 4 })
    t.equal(served.size, 6, 'what is open stays')
    await come(2)
    t.equal(served.size, 6)
    await leave(3)
    await come(3)
    t.equal(served.size, 4)
    await listen({ routeConnections: 6 })
    await come(3)
    t.equal(served.size, 6)
    await listen(undefined)
    await come(3)
    t.equal(served.size, 9)
    await leave(4)
    await listen({ routeConnections: 6 })
    await come(3)
    t.equal(served.size, 6)
    t.match(counters(), { active: 6 })
  })

  t.test('connections a second of a route', async t => {
    const { come, served, counters, records } = await setUp(t, { routeRate: 5 })
    const begun = Date.now()
    await come(20)
    const most = 5 + Math.ceil(((Date.now() - begun) / 1000) * 5)
    t.ok(served.size >= 5 && served.size <= most, `${served.size} of ${most}`)
    t.equal(counters().failed.PL, 20 - served.size)
    await until('they are told of', () => records.length === 20 - served.size)
    t.match(records[0], { cause: 'PL', detail: 'max-route-rate' })
    const before = served.size
    await until('others may come', async () => {
      await come(1)
      return served.size > before
    })
  })

  t.test('connections of a client', onLinux, async t => {
    const { come, leave, served, records } = await setUp(t, { clientConnections: 3 })
    await come(5, near)
    t.equal(served.size, 3)
    await come(5, far)
    t.equal(served.size, 6)
    await until('they are told of', () => records.length === 4)
    t.match(records[0], { cause: 'PL', detail: 'max-client-connections' })
    await leave(6)
    await come(5, near)
    t.equal(served.size, 3)
  })

  t.test('connections a second of a client', onLinux, async t => {
    const { come, served, records } = await setUp(t, { clientRate: 2 })
    await come(1, near)
    await come(10, far)
    t.ok(served.size >= 3 && served.size < 11, `${served.size}`)
    await until('they are told of', () => records.length === 11 - served.size)
    t.match(records[0], { client: new RegExp(`^${far}:`), detail: 'max-client-rate' })
  })

  t.test('over IPv6', withIpv6, async t => {
    const { come, served } = await setUp(t, { clientConnections: 2 }, '::1')
    await come(5)
    t.equal(served.size, 2)
  })

  t.test('clients that come and go at the limit leave nothing behind', async t => {
    const limits = { routeConnections: 8, clientConnections: 8 }
    const { come, leave, served, refused, counters, relay } = await setUp(t, limits)
    for (let i = 0; i < 20; i += 1) {
      await come(12)
      t.equal(served.size, 8)
      await leave(8)
    }
    t.equal(refused(), 80)
    t.match(counters(), { active: 0, failed: { PL: 80 } })
    await until('descriptors are free', () => relay.stats().fds.used <= 8)
  })
}
