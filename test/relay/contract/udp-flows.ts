import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  listenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../support/tcp-backend.ts'
import { namedUdp, udpBackend } from '../../support/udp-backend.ts'
import { type UdpClient, udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** More than the relay's idea of the time may be behind, so that ages differ. */
const aWhileMs = 250

/** Whether a client's datagram is answered over the flow that it has already. */
const keepsFlow = async (client: UdpClient, opened: () => number): Promise<boolean> => {
  const before = opened()
  await client.ask('still mine?')
  return opened() === before
}

/** How many flows there may be, who goes first, and what is not let in. */
export const udpFlowsContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, request: RelayRequest = {}) => {
    const fixture = relayFixture(t, make, request)
    const port = await freeUdpPort()
    const binds = [{ address: testHost, port }]
    const listen = (spec: Partial<RelayListener>): Promise<void> =>
      fixture.listen({ protocol: 'UDP', binds, ...spec })
    return { ...fixture, listen, port, binds }
  }

  t.test('beyond the cap the flow that is idle for longest goes', async t => {
    const { listen, port, stats, relay } = await setUp(t, {
      limits: { udpMaxFlowsPerPort: 3 },
    })
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const opened = (): number => stats().counters.accepted
    const [a, b, c, d] = await fiveClients(t, port)
    for (const client of [a, b, c, a, d]) {
      await client.ask('hello')
      await sleep(aWhileMs)
    }
    t.equal(opened(), 4)
    t.equal(stats().counters.active, 3, 'there are no more than allowed')
    t.equal(carryingFds(relay.stats()), 3)
    for (const client of [a, c, d]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(b, opened), 'only the one that was idle for longest went')
    t.equal(stats().counters.active, 3)
    t.strictSame(stats().counters.datagramsDropped, {}, 'nothing was lost by it')
  })

  t.test('a flow that nobody answered goes before those that are served', async t => {
    const { listen, port, stats } = await setUp(t, { limits: { udpMaxFlowsPerPort: 3 } })
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const opened = (): number => stats().counters.accepted
    const [a, b, flooding, d] = await fiveClients(t, port)
    await a.ask('hello')
    await b.ask('hello')
    await sleep(aWhileMs)
    flooding.send('silence')
    await until('it has a flow', () => opened() === 3)
    await d.ask('hello')
    for (const client of [a, b, d]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(flooding, opened), 'although it was the youngest')
    t.equal(stats().counters.active, 3)
  })

  t.test('at the cap flows that wait for their answer have time for it', async t => {
    const { listen, port, stats } = await setUp(t, { limits: { udpMaxFlowsPerPort: 24 } })
    const slow = await udpBackend(
      t,
      (_message, reply) => void sleep(50).then(() => reply('at last')),
    )
    await listen({ endpoints: [slow.endpoint] })
    for (let asked = 0; asked < 48; asked += 4) {
      const clients = await Promise.all([1, 2, 3, 4].map(() => udpClient(t, port)))
      await Promise.all(clients.map(client => client.ask('hello')))
    }
    t.match(stats().counters, { accepted: 48, active: 24 })
  })

  t.test('the cap over all listeners takes the oldest of any', async t => {
    const { relay, stats } = await setUp(t, { limits: { udpMaxFlows: 3 } })
    const { endpoint } = await namedUdp(t, 'a')
    const ports = [await freeUdpPort(), await freeUdpPort()] as const
    const spec = (id: string, port: number): RelayListener =>
      listenerSpec({
        id,
        protocol: 'UDP',
        binds: [{ address: testHost, port }],
        endpoints: [endpoint],
      })
    await relay.apply([spec('one', ports[0]), spec('two', ports[1])])
    const [a, b] = await fiveClients(t, ports[0])
    const [c, d] = await fiveClients(t, ports[1])
    for (const client of [a, b, c, a, d]) {
      await client.ask('hello')
      await sleep(aWhileMs)
    }
    const active = (): number[] => ['one', 'two'].map(id => stats(id).counters.active)
    t.strictSame(active(), [1, 2], 'one of the first made room for one of the second')
    const opened = (): number =>
      stats('one').counters.accepted + stats('two').counters.accepted
    for (const client of [a, c, d]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(b, opened))
    t.equal(carryingFds(relay.stats()), 3)
  })

  t.test('without a limit of descriptors flows need not make room', async t => {
    const { listen, port, stats } = await setUp(t, { openFileLimit: Infinity })
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const clients = await fiveClients(t, port)
    for (const client of clients) t.equal(await client.ask('hello'), 'a')
    t.equal(stats().counters.active, 5)
  })

  /** Of which UDP may have half, listening sockets included in the eight. */
  const eightDescriptors: RelayRequest = {
    openFileLimit: 108,
    limits: { reservedFds: 100 },
  }

  t.test('when half of the descriptors are flows the oldest gives its own', async t => {
    const { listen, port, stats, relay } = await setUp(t, eightDescriptors)
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const opened = (): number => stats().counters.accepted
    const [a, b, c, d, e] = await fiveClients(t, port)
    for (const client of [a, b, c, d, e]) {
      t.equal(await client.ask('hello'), 'a')
      await sleep(aWhileMs)
    }
    t.match(stats().counters, { accepted: 5, active: 4 })
    t.equal(carryingFds(relay.stats()), 4)
    for (const client of [b, c, d, e]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(a, opened))
    t.strictSame(stats().counters.datagramsDropped, {})
  })

  t.test('when TCP has all descriptors a new flow is dropped and counted', async t => {
    const { relay, stats, port, binds } = await setUp(t, eightDescriptors)
    const tcp = await echoBackend(t)
    const udp = await namedUdp(t, 'a')
    const tcpPort = await freeTcpPort()
    await relay.apply([
      listenerSpec({ protocol: 'UDP', binds, endpoints: [udp.endpoint] }),
      listenerSpec({
        id: 'tcp',
        binds: [{ address: testHost, port: tcpPort }],
        endpoints: [tcp.endpoint],
      }),
    ])
    const connections = [dial(t, tcpPort), dial(t, tcpPort), dial(t, tcpPort)]
    await until('TCP has them all', () => carryingFds(relay.stats()) === 6)
    const client = await udpClient(t, port)
    client.send('no room')
    await until('it is counted', () => stats().counters.datagramsDropped['no-fd'] === 1)
    t.match(stats().counters, { accepted: 0, active: 0 })
    for (const connection of connections) connection.destroy()
    await until('they are free again', () => carryingFds(relay.stats()) === 0)
    t.equal(await client.ask('now?'), 'a')
    t.strictSame(udp.received.map(String), ['now?'])
  })

  t.test('a datagram in the name of a listener of the relay is dropped', async t => {
    const { relay, port, binds, stats } = await setUp(t)
    const a = await namedUdp(t, 'a')
    const own = { address: testHost, port: await freeUdpPort() }
    // Without endpoints its port is free, so that the test can send from there.
    await relay.apply([
      listenerSpec({ protocol: 'UDP', binds, endpoints: [a.endpoint] }),
      listenerSpec({ id: 'other', protocol: 'UDP', binds: [own] }),
    ])
    const forger = await udpClient(t, port, testHost, testHost, own.port)
    forger.send('round and round')
    await until('it is counted', () => stats().counters.datagramsDropped.loop === 1)
    t.match(stats().counters, { accepted: 0, datagramsToBackend: 0 })
    t.strictSame(a.received, [])
    const honest = await udpClient(t, port)
    t.equal(await honest.ask('and me?'), 'a')
    await relay.apply([listenerSpec({ protocol: 'UDP', binds, endpoints: [a.endpoint] })])
    t.equal(await forger.ask('no longer'), 'a', 'its address belongs to nobody now')
  })

  t.test('while draining old flows go on and new ones are dropped', async t => {
    const { relay, stats, port, binds } = await setUp(t)
    const a = await namedUdp(t, 'a')
    const tcp = await echoBackend(t)
    const tcpPort = await freeTcpPort()
    await relay.apply([
      listenerSpec({ protocol: 'UDP', binds, endpoints: [a.endpoint] }),
      listenerSpec({
        id: 'tcp',
        binds: [{ address: testHost, port: tcpPort }],
        endpoints: [tcp.endpoint],
      }),
    ])
    // UDP itself has no end to wait for: the connection is what the drain waits for.
    const connection = dial(t, tcpPort)
    await once(connection, 'connect')
    await until('it is accepted', () => stats('tcp').counters.active === 1)
    const old = await udpClient(t, port)
    t.equal(await old.ask('1'), 'a')
    const drained = relay.drain(60_000)
    t.equal(await old.ask('2'), 'a')
    const late = await udpClient(t, port)
    late.send('too late')
    await until('it is dropped', () => stats().counters.datagramsDropped.draining === 1)
    t.equal(await old.ask('3'), 'a')
    t.strictSame(late.received, [])
    connection.end()
    t.strictSame(await drained, { reset: 0 })
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    t.equal(await old.ask('4'), 'ECONNREFUSED', 'at the end nobody listens')
    t.strictSame(a.received.map(String), ['1', '2', '3'])
  })
}

/** Five clients, so that a test can take as many as it needs. */
const fiveClients = async (t: Test, port: number) => {
  const one = (): Promise<UdpClient> => udpClient(t, port)
  return [await one(), await one(), await one(), await one(), await one()] as const
}
