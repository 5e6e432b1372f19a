import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { echoUdp, namedUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** Nobody listens there: the kernel answers with ICMP port unreachable. */
const dead = async (): Promise<RelayEndpoint> => endpoint(testHost, await freeUdpPort())

/** Endpoints that refuse or can't be sent to, and what their clients notice. */
export const udpRefusalContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, host = testHost) => {
    const fixture = relayFixture(t, make)
    const port = await freeUdpPort(host)
    const binds = [{ address: host, port }]
    const listen = (endpoints: readonly RelayEndpoint[], affinityMs = 0) =>
      fixture.listen({ protocol: 'UDP', binds, endpoints, affinityMs })
    return { ...fixture, listen, port }
  }

  t.test('a datagram that is refused reaches another endpoint, once', async t => {
    const { listen, port, stats, relay } = await setUp(t)
    const alive = await echoUdp(t)
    await listen([await dead(), await dead(), alive.endpoint])
    const clients = await Promise.all(Array.from({ length: 9 }, () => udpClient(t, port)))
    const datagrams = clients.map(() => randomBytes(200).toString('hex'))
    const answers = clients.map((client, i) => client.ask(datagrams[i] ?? ''))
    t.strictSame(await Promise.all(answers), datagrams, 'everybody is answered')
    await sleep(100)
    t.strictSame(alive.received.map(String).toSorted(), datagrams.toSorted())
    t.ok(
      clients.every(({ received }) => received.length === 1),
      'nothing came twice',
    )
    const { counters, endpoints } = stats()
    t.strictSame(counters.datagramsDropped, {})
    t.equal(counters.dialAttempts, 9 + counters.dialRetries)
    t.ok(counters.dialRetries > 0 && counters.dialRetries <= 18)
    const failures = endpoints.map(one => one.failures)
    t.equal((failures[0] ?? 0) + (failures[1] ?? 0), counters.dialRetries)
    t.match(endpoints[2], { active: 9, failures: 0 }, 'all are with the living one')
    t.equal(carryingFds(relay.stats()), 9)
  })

  t.test('a flow whose endpoint dies goes on with another', async t => {
    const { listen, port, stats } = await setUp(t)
    const a = await namedUdp(t, 'a')
    await listen([a.endpoint])
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    const b = await namedUdp(t, 'b')
    await listen([a.endpoint, b.endpoint])
    t.equal(await client.ask('2'), 'a')
    await a.close()
    t.equal(await client.ask('3'), 'b', 'the client notices nothing')
    t.equal(await client.ask('4'), 'b')
    t.strictSame(b.received.map(String), ['3', '4'])
    t.strictSame(client.errors, [])
    t.match(stats().counters, { accepted: 1, dialAttempts: 2, dialRetries: 1 })
    t.match(stats().endpoints, [
      { failures: 1, active: 0 },
      { failures: 0, active: 1 },
    ])
  })

  t.test('the last of a burst that is refused arrives, and none twice', async t => {
    const { listen, port } = await setUp(t)
    const a = await echoUdp(t)
    await listen([a.endpoint])
    const client = await udpClient(t, port)
    t.equal(await client.ask('first'), 'first')
    const b = await echoUdp(t)
    await listen([a.endpoint, b.endpoint])
    await a.close()
    const burst = Array.from({ length: 10 }, (_, i) => `${i}`)
    for (const datagram of burst) client.send(datagram)
    await until('the last arrived', () => b.received.map(String).includes('9'))
    await sleep(100)
    const arrived = b.received.map(String)
    t.strictSame(arrived, burst.slice(-arrived.length), 'in order, and once each')
    t.strictSame(client.received.map(String), ['first', ...arrived])
  })

  t.test('a flow that was refused may come back after another answered', async t => {
    const { listen, port } = await setUp(t)
    const a = await namedUdp(t, 'a')
    const b = await namedUdp(t, 'b')
    await listen([a.endpoint])
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    await listen([a.endpoint, b.endpoint])
    await a.close()
    t.equal(await client.ask('2'), 'b')
    await namedUdp(t, 'a again', a.endpoint.port)
    await b.close()
    t.equal(await client.ask('3'), 'a again')
  })

  t.test('when all refuse, the datagram is dropped and the next one tries', async t => {
    const { listen, port, stats, relay } = await setUp(t)
    const gone = await dead()
    await listen([gone, await dead()])
    const client = await udpClient(t, port)
    client.send('lost')
    await until('it was dropped', () => stats().counters.datagramsDropped.refused === 1)
    t.match(stats().endpoints, [{ failures: 1 }, { failures: 1 }], 'each was tried')
    t.match(stats().counters, { accepted: 1, active: 0, dialRetries: 1 })
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    const back = await namedUdp(t, 'back', gone.port)
    t.equal(await client.ask('again'), 'back')
    t.strictSame(back.received.map(String), ['again'])
    t.strictSame(stats().counters.datagramsDropped, { refused: 1 })
    t.equal(client.errors.length, 0, 'the listener itself never refused')
  })

  t.test('a client with affinity is remembered where it was answered', async t => {
    const { listen, port } = await setUp(t)
    const b = await namedUdp(t, 'b')
    const c = await namedUdp(t, 'c')
    await listen([await dead(), await dead()], 60_000)
    const first = await udpClient(t, port)
    first.send('lost')
    await listen([await dead(), await dead(), b.endpoint, c.endpoint], 60_000)
    const place = await first.ask('where?')
    for (let i = 0; i < 5; i += 1) {
      const client = await udpClient(t, port)
      t.equal(await client.ask('where?'), place)
    }
  })

  t.test('an endpoint that no socket can be connected to is passed over', async t => {
    const { listen, port, stats } = await setUp(t)
    const alive = await namedUdp(t, 'alive')
    // The kernel refuses to send there without SO_BROADCAST (EACCES).
    const impossible = endpoint('255.255.255.255', 9)
    await listen([impossible, alive.endpoint])
    for (let i = 0; i < 4; i += 1) {
      const client = await udpClient(t, port)
      t.equal(await client.ask(`${i}`), 'alive')
    }
    t.strictSame(alive.received.map(String), ['0', '1', '2', '3'])
    const { counters, endpoints } = stats()
    t.match(endpoints, [{ active: 0 }, { active: 4, failures: 0 }])
    t.equal(endpoints[0]?.failures, counters.dialRetries)
    t.ok(counters.dialRetries > 0, 'it was tried, and blamed')
    t.match(counters, { accepted: 4, datagramsToBackend: 4 })
    t.strictSame(counters.datagramsDropped, {})
  })

  t.test('a datagram too long for the way to its endpoint costs only itself', async t => {
    const { listen, port, stats } = await setUp(t, '::1')
    const alive = await echoUdp(t, testHost)
    await listen([alive.endpoint])
    const client = await udpClient(t, port, '::1')
    t.equal(await client.ask('from IPv6 to IPv4'), 'from IPv6 to IPv4')
    // Fits into IPv6, whose header is not part of the length, but not into IPv4.
    client.send(randomBytes(65_520))
    await until('it was dropped', () => {
      const { datagramsDropped } = stats().counters
      return datagramsDropped['send-failed'] === 1
    })
    t.match(stats().counters, { active: 1, datagramsToBackend: 1, bytesToBackend: 17 })
    t.equal(await client.ask('still there'), 'still there')
    t.match(stats().counters, { accepted: 1, datagramsToBackend: 2, bytesToBackend: 28 })
  })
}
