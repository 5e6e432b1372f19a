import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  listenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../support/tcp-backend.ts'
import { namedUdp, silentUdp, udpBackend } from '../../support/udp-backend.ts'
import { type UdpClient, udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** More than the relay's idea of the time may be behind, so that ages differ. */
const aWhileMs = 250

/** How long flows live, how many there may be, and what is not let in. */
export const udpFlowsContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, request: RelayRequest = {}) => {
    const fixture = relayFixture(t, make, request)
    const port = await freeUdpPort()
    const binds = [{ address: testHost, port }]
    const flows = (): number => fixture.stats().counters.active
    const listen = (spec: Partial<RelayListener>): Promise<void> =>
      fixture.listen({ protocol: 'UDP', binds, ...spec })
    return { ...fixture, listen, port, binds, flows }
  }

  /** How many milliseconds from now on the flows live. */
  const lifetime = async (flows: () => number): Promise<number> => {
    const start = performance.now()
    await until('the flow has ended', () => flows() === 0)
    return performance.now() - start
  }

  t.test('a flow that nobody answers ends after the first, short limit', async t => {
    const { listen, port, flows, relay } = await setUp(t, {
      limits: { udpReplyIdleMs: 300, udpIdleMs: 60_000 },
    })
    const silent = await silentUdp(t)
    await listen({ endpoints: [silent.endpoint] })
    const client = await udpClient(t, port)
    client.send('anybody?')
    await until('there is a flow', () => flows() === 1)
    t.ok((await lifetime(flows)) > 280, 'and not before')
    t.equal(relay.stats().fds.used, 0)
  })

  t.test('a flow that was answered ends after the second limit', async t => {
    const { listen, port, flows, relay, stats } = await setUp(t, {
      limits: { udpReplyIdleMs: 200, udpIdleMs: 900 },
    })
    const a = await namedUdp(t, 'a')
    await listen({ endpoints: [a.endpoint] })
    const client = await udpClient(t, port)
    const start = performance.now()
    await client.ask('1')
    t.ok((await lifetime(flows)) > 880)
    t.ok(performance.now() - start >= 900)
    t.equal(relay.stats().fds.used, 0)
    t.match(stats().endpoints, [{ active: 0 }])
    t.equal(await client.ask('2'), 'a', 'the next datagram opens another')
    t.equal(stats().counters.accepted, 2)
  })

  t.test('datagrams of the client alone keep a flow open', async t => {
    const { listen, port, flows, stats } = await setUp(t, {
      limits: { udpReplyIdleMs: 600 },
    })
    const silent = await silentUdp(t)
    await listen({ endpoints: [silent.endpoint] })
    const client = await udpClient(t, port)
    for (let i = 0; i < 15; i += 1) {
      client.send(`${i}`)
      await sleep(100)
    }
    t.equal(silent.received.length, 15)
    t.match(stats().counters, { accepted: 1, active: 1 })
    t.ok((await lifetime(flows)) > 400, 'the limit counts from the last one')
  })

  t.test('datagrams of the endpoint alone keep a flow open', async t => {
    const { listen, port, stats } = await setUp(t, {
      limits: { udpReplyIdleMs: 600, udpIdleMs: 600 },
    })
    const feed = await udpBackend(t, (_message, reply) => {
      void (async () => {
        for (let i = 0; i < 15; i += 1) {
          reply(`${i}`)
          await sleep(100)
        }
      })()
    })
    await listen({ endpoints: [feed.endpoint] })
    const client = await udpClient(t, port)
    client.send('subscribe')
    await until('all came', () => client.received.length === 15)
    t.match(stats().counters, { accepted: 1, active: 1 })
  })

  const answersAfter = (t: Test, ms: number) =>
    udpBackend(t, (_message, reply) => void sleep(ms).then(() => reply('at last')))

  t.test('a slow answer within the first limit reaches the client', async t => {
    const { listen, port, stats } = await setUp(t, {
      limits: { udpReplyIdleMs: 1000, udpIdleMs: 200 },
    })
    const slow = await answersAfter(t, 900)
    await listen({ endpoints: [slow.endpoint] })
    const client = await udpClient(t, port)
    t.equal(await client.ask('take your time'), 'at last')
    t.match(stats().counters, { accepted: 1, datagramsToClient: 1 })
  })

  t.test('an answer after the limit is not passed on', async t => {
    const { listen, port, stats, flows } = await setUp(t, {
      limits: { udpReplyIdleMs: 200 },
    })
    const slow = await answersAfter(t, 800)
    await listen({ endpoints: [slow.endpoint] })
    const client = await udpClient(t, port)
    client.send('take your time')
    await until('there is a flow', () => flows() === 1)
    await lifetime(flows)
    await sleep(900)
    t.strictSame(client.received, [])
    t.equal(stats().counters.datagramsToClient, 0)
  })

  /** Whether a client's datagram is answered over the flow that it has already. */
  const keepsFlow = async (
    client: UdpClient,
    opened: () => number,
  ): Promise<boolean> => {
    const before = opened()
    await client.ask('still mine?')
    return opened() === before
  }

  t.test('beyond the cap the flow that is idle for longest goes', async t => {
    const { listen, port, flows, stats, relay } = await setUp(t, {
      limits: { udpFlowsPerListener: 3 },
    })
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const opened = (): number => stats().counters.accepted
    const [a, b, c, d] = await clientsOf(t, port, 4)
    for (const client of [a, b, c, a, d]) {
      await client.ask('hello')
      await sleep(aWhileMs)
    }
    t.equal(opened(), 4)
    t.equal(flows(), 3, 'there are no more than allowed')
    t.equal(relay.stats().fds.used, 3)
    for (const client of [a, c, d]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(b, opened), 'only the one that was idle for longest went')
    t.equal(flows(), 3)
    t.strictSame(stats().counters.datagramsDropped, {}, 'nothing was lost by it')
  })

  t.test('a flow that nobody answered goes before those that are served', async t => {
    const { listen, port, stats } = await setUp(t, { limits: { udpFlowsPerListener: 3 } })
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const opened = (): number => stats().counters.accepted
    const [a, b, flooding, d] = await clientsOf(t, port, 4)
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

  t.test('the cap over all listeners takes the oldest of any', async t => {
    const { relay, stats } = await setUp(t, { limits: { udpFlows: 3 } })
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
    const [a, b] = await clientsOf(t, ports[0], 2)
    const [c, d] = await clientsOf(t, ports[1], 2)
    for (const client of [a, b, c, a, d]) {
      await client.ask('hello')
      await sleep(aWhileMs)
    }
    const active = (): number[] =>
      ['one', 'two'].map(id => stats(id).counters.active)
    t.strictSame(active(), [1, 2], 'one of the first made room for one of the second')
    const opened = (): number =>
      stats('one').counters.accepted + stats('two').counters.accepted
    for (const client of [a, c, d]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(b, opened))
    t.equal(relay.stats().fds.used, 3)
  })

  const fourDescriptors: RelayRequest = {
    openFileLimit: 104,
    limits: { reservedFds: 100 },
  }

  t.test('when no descriptor is left the oldest flow gives its own', async t => {
    const { listen, port, stats, relay } = await setUp(t, fourDescriptors)
    await listen({ endpoints: [(await namedUdp(t, 'a')).endpoint] })
    const opened = (): number => stats().counters.accepted
    const [a, b, c, d, e] = await clientsOf(t, port, 5)
    for (const client of [a, b, c, d, e]) {
      t.equal(await client.ask('hello'), 'a')
      await sleep(aWhileMs)
    }
    t.match(stats().counters, { accepted: 5, active: 4 })
    t.equal(relay.stats().fds.used, 4)
    for (const client of [b, c, d, e]) t.ok(await keepsFlow(client, opened))
    t.notOk(await keepsFlow(a, opened))
    t.strictSame(stats().counters.datagramsDropped, {})
  })

  t.test('when TCP has all descriptors a new flow is dropped and counted', async t => {
    const { relay, stats, port, binds } = await setUp(t, fourDescriptors)
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
    const connections = [dial(t, tcpPort), dial(t, tcpPort)]
    await until('TCP has them all', () => relay.stats().fds.used === 4)
    const client = await udpClient(t, port)
    client.send('no room')
    await until('it is counted', () => stats().counters.datagramsDropped['no-fd'] === 1)
    t.match(stats().counters, { accepted: 0, active: 0 })
    for (const connection of connections) connection.destroy()
    await until('they are free again', () => relay.stats().fds.used === 0)
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
    t.equal(await forger.ask('no longer'), 'a', 'the address is not the relay’s any more')
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
    t.equal(relay.stats().fds.used, 0)
    t.equal(await old.ask('4'), 'ECONNREFUSED', 'at the end nobody listens')
    t.strictSame(a.received.map(String), ['1', '2', '3'])
  })
}

/** As many clients as asked for. */
const clientsOf = async <N extends number>(
  t: Test,
  port: number,
  count: N,
): Promise<[UdpClient, UdpClient, UdpClient, UdpClient, UdpClient]> => {
  throw new Error(`${count}`)
}
