import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { freePort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  frontOf,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { namedBackend, ask } from '../../support/tcp-backend.ts'
import { echoUdp, udpBackend } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** The longest payload of UDP: 65 535 less its header, and less IPv4's (RFC 768, 791). */
const longest = (host: string): number => (host.includes(':') ? 65_487 : 65_507)

const total = (messages: readonly Buffer[]): number =>
  messages.reduce((sum, { length }) => sum + length, 0)

const lengths = (list: readonly Buffer[]): number[] => list.map(one => one.length)

/** Every datagram both ways, over `host`, and what is counted of it. */
export const udpCopyContract = (t: Test, make: MakeRelay, host = testHost): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make)
    const port = await freeUdpPort(host)
    const backend = await echoUdp(t, host)
    const binds = [{ address: host, port }]
    await fixture.listen({ protocol: 'UDP', binds, endpoints: [backend.endpoint] })
    return { ...fixture, port, backend }
  }

  for (const bytes of [0, 1, 1472, 9000, longest(host)]) {
    t.test(`a datagram of ${bytes} bytes crosses both ways unbroken`, async t => {
      const { port, backend, stats } = await setUp(t)
      const client = await udpClient(t, port, host)
      const datagram = randomBytes(bytes)
      client.send(datagram)
      await until('the echo came', () => client.received.length > 0)
      t.ok(backend.received[0]?.equals(datagram), 'the endpoint got what the client sent')
      t.ok(client.received[0]?.equals(datagram), 'the client got what the endpoint sent')
      t.match(stats().counters, { bytesToBackend: bytes, bytesToClient: bytes })
    })
  }

  t.test('a burst of datagrams keeps its boundaries and its order', async t => {
    const { port, backend } = await setUp(t)
    const client = await udpClient(t, port, host)
    const sent = Array.from({ length: 100 }, (_, i) => randomBytes((i * 37) % 500))
    for (const datagram of sent) client.send(datagram)
    await until('all echoes came', () => client.received.length === sent.length)
    t.ok(Buffer.concat(sent).equals(Buffer.concat(backend.received)), 'every byte came')
    t.strictSame(lengths(backend.received), lengths(sent), 'in the same pieces')
    t.strictSame(lengths(client.received), lengths(sent), 'and so did the echoes')
  })

  t.test('64 clients at once never see the replies of each other', async t => {
    const { listen, stats, relay } = relayFixture(t, make)
    const port = await freeUdpPort(host)
    const backends = await Promise.all([1, 2, 3].map(() => tardyEcho(t, host)))
    await listen({
      protocol: 'UDP',
      binds: [{ address: host, port }],
      endpoints: backends.map(backend => backend.endpoint),
    })
    const rounds = 25
    const converse = async (): Promise<{ wrong: number; extra: number }> => {
      const client = await udpClient(t, port, host)
      let wrong = 0
      for (let round = 1; round <= rounds; round += 1) {
        const payload = randomBytes(16 + Math.floor(Math.random() * 1400))
        client.send(payload)
        await until('a reply came', () => client.received.length >= round)
        if (!client.received[round - 1]?.equals(payload)) wrong += 1
      }
      return { wrong, extra: client.received.length - rounds }
    }
    const ends = await Promise.all(Array.from({ length: 64 }, converse))
    t.strictSame(
      ends.filter(({ wrong, extra }) => wrong + extra > 0),
      [],
      'each client got its own replies and no more',
    )
    const { counters, endpoints } = stats()
    t.match(counters, { accepted: 64, active: 64, datagramsToClient: 64 * rounds })
    t.strictSame(
      endpoints.map(({ active }) => active).toSorted((a, b) => a - b),
      [21, 21, 22],
    )
    t.equal(carryingFds(relay.stats()), 64, 'a descriptor each')
  })

  t.test('a reply leaves from the address and port the client wrote to', async t => {
    const { listen } = relayFixture(t, make)
    const backend = await echoUdp(t, host)
    const binds = [
      { address: host, port: await freeUdpPort(host) },
      { address: host, port: await freeUdpPort(host) },
    ]
    if (!host.includes(':')) {
      const other = host.replace(/^127\.\d+/, '127.20')
      binds.push({ address: other, port: await freeUdpPort(other) })
    }
    await listen({ protocol: 'UDP', binds, endpoints: [backend.endpoint] })
    // One client port for all, so that only the address written to tells them apart.
    const from = await freeUdpPort(host)
    for (const { address, port } of binds) {
      const client = await udpClient(t, port, address, host, from)
      t.equal(await client.ask(`to ${address}`), `to ${address}`)
      await client.close()
    }
    t.equal(backend.received.length, binds.length)
  })

  t.test('what crosses is counted to the byte', async t => {
    const { port, backend, stats, relay } = await setUp(t)
    const before = stats().counters
    t.match(before, { accepted: 0, active: 0, dialAttempts: 0, datagramsToBackend: 0 })
    const clients = await Promise.all([1, 2, 3].map(() => udpClient(t, port, host)))
    for (const client of clients) {
      for (const bytes of [3, 500, 40]) await client.ask(randomBytes(bytes))
    }
    const { counters, endpoints } = stats()
    t.match(counters, {
      accepted: 3,
      active: 3,
      dialAttempts: 3,
      dialRetries: 0,
      datagramsToBackend: 9,
      datagramsToClient: 9,
      bytesToBackend: 3 * 543,
      bytesToClient: 3 * 543,
    })
    t.strictSame(counters.datagramsDropped, {})
    t.strictSame(counters.failed, {})
    t.equal(total(backend.received), counters.bytesToBackend)
    t.match(endpoints, [{ active: 3, failures: 0 }])
    t.equal(carryingFds(relay.stats()), 3)
  })

  t.test('an endpoint may send several replies, and none to a datagram', async t => {
    const { listen, stats } = relayFixture(t, make)
    const port = await freeUdpPort(host)
    const backend = await udpBackend(
      t,
      (message, reply) => {
        for (let i = 0; i < message.length; i += 1) reply(`${i}`)
      },
      host,
    )
    const binds = [{ address: host, port }]
    await listen({ protocol: 'UDP', binds, endpoints: [backend.endpoint] })
    const client = await udpClient(t, port, host)
    for (const message of ['', 'abc', '']) client.send(message)
    await until('all came', () => client.received.length === 3)
    t.strictSame(client.received.map(String), ['0', '1', '2'])
    t.match(stats().counters, { datagramsToBackend: 3, datagramsToClient: 3 })
  })

  t.test('TCP and UDP are served on one port, each by its own endpoints', async t => {
    const { relay } = relayFixture(t, make)
    const port = await freePort(host)
    const tcp = await namedBackend(t, 'by TCP', host)
    const udp = await echoUdp(t, host)
    const common = {
      name: 'both',
      fronts: [frontOf([{ address: host, port }])],
      affinityMs: 0,
    }
    await relay.apply([
      { ...common, id: 'tcp', protocol: 'TCP', endpoints: [tcp.endpoint] },
      { ...common, id: 'udp', protocol: 'UDP', endpoints: [udp.endpoint] },
    ])
    const client = await udpClient(t, port, host)
    t.equal(await client.ask('by UDP'), 'by UDP')
    t.equal((await ask(port, host)).text, 'by TCP')
    t.equal(await client.ask('still by UDP'), 'still by UDP')
  })
}

/** Echoes after a little while, so that replies come in another order than the asking. */
const tardyEcho = (t: Test, host: string) =>
  udpBackend(
    t,
    (message, reply) => {
      void sleep(Math.floor(Math.random() * 8)).then(() => reply(message))
    },
    host,
  )
