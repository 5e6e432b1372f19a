import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import type { RelayLimits, RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, freeUdpPort } from '../../support/ports.ts'
import {
  endpoint,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { dial, echoBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** Relays that lead to each other, each by the next one's address. */
const makeRing = async (
  t: Test,
  makers: readonly MakeRelay[],
  host: string,
  protocol: RelayListener['protocol'],
  over: ListenerSpec = {},
  limits: Partial<RelayLimits> = {},
) => {
  const free = protocol === 'TCP' ? freeTcpPort : freeUdpPort
  const ports = await Promise.all(makers.map(() => free(host)))
  const fixtures = makers.map(make => relayFixture(t, make, { limits }))
  for (const [i, { listen }] of fixtures.entries())
    await listen({
      protocol,
      binds: [{ address: host, port: ports[i] ?? 0 }],
      endpoints: [endpoint(host, ports[(i + 1) % ports.length] ?? 0)],
      ...over,
    })
  const sum = (of: (one: (typeof fixtures)[number]) => number): number =>
    fixtures.reduce((all, one) => all + of(one), 0)
  const active = () => sum(({ stats }) => stats().counters.active)
  return { port: ports[0] ?? 0, fixtures, sum, active }
}

/** Rings that some of the relays can't find: none outlives its client, which may be half-closed for so long. */
export const clientOfRingLeavesContract = (
  t: Test,
  makers: readonly MakeRelay[],
): void => {
  const limits = { halfCloseTimeout: 1000 }
  const leave = {
    'with a reset': (client: Socket) => client.resetAndDestroy(),
    'in order': (client: Socket) => client.destroy(),
  }
  for (const [how, leaves] of Object.entries(leave))
    t.test(`a ring of ${makers.length} ends when its client leaves ${how}`, async t => {
      const ring = await makeRing(t, makers, '127.0.0.1', 'TCP', {}, limits)
      const { port, active, sum } = ring
      const client = dial(t, port, '127.0.0.1')
      client.write('hello')
      await until('it has gone round for a while', () => active() > 300)
      leaves(client)
      const accepted = () => sum(({ stats }) => stats().counters.accepted)
      const before = accepted()
      // Each hop looks at the kernel's table of sockets, which takes as long as the machine is busy.
      for (let left = active(); left > 0; left = active())
        await until(`fewer than ${left} go round`, () => active() < left)
      t.ok(accepted() - before < 300, `${accepted() - before} more after it`)
    })
}

/** As syslog over TCP: an endpoint that says nothing, and ends its side after the client. */
export const oneWayClientsContract = (t: Test, make: MakeRelay): void => {
  const host = '127.0.0.1'
  t.test('one-way clients, one after the other, are no ring', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort(host)
    const sink = (socket: Socket): void => {
      socket.resume()
      socket.on('end', () => socket.end())
    }
    const { endpoint: place } = await tcpBackend(t, sink, host)
    await listen({ binds: [{ address: host, port }], endpoints: [place] })
    const tookMs: number[] = []
    for (let i = 0; i < 400; i += 1) {
      const client = dial(t, port, host)
      const since = performance.now()
      client.end('line')
      await once(client.resume(), 'end')
      tookMs.push(performance.now() - since)
    }
    const median = (part: readonly number[]): number =>
      part.toSorted((a, b) => a - b)[part.length >> 1] ?? 0
    const [first, last] = [median(tookMs.slice(0, 100)), median(tookMs.slice(-100))]
    t.ok(last < first + 100, `${first} ms at first, ${last} ms in the end`)
  })
}

export const ringsContract = (
  t: Test,
  makers: readonly MakeRelay[],
  host = '127.0.0.1',
): void => {
  const name = `a ring of ${makers.length} at ${host}`
  const [first] = makers
  if (first === undefined) throw new Error('no relay')
  const at = (port: number) => [{ address: host, port }]
  const ring = (t: Test, protocol: RelayListener['protocol'], over: ListenerSpec = {}) =>
    makeRing(t, makers, host, protocol, over)

  const overs: readonly (readonly [string, ListenerSpec])[] = [
    ['', {}],
    [
      ', with headers, held clients and early closes',
      { proxyProtocol: 'v2', retry: { earlyClose: true, replay: 1024, holdMs: 30_000 } },
    ],
  ]
  for (const [what, over] of overs.slice(0, makers.length === 2 ? 2 : 1))
    t.test(`${name} ends by itself${what}`, async t => {
      const { port, fixtures, sum, active } = await ring(t, 'TCP', over)
      const client = dial(t, port, host)
      client.write('hello')
      await t.rejects(once(client, 'end'), { code: 'ECONNRESET' })
      await until('nothing goes round', () => active() === 0)
      const accepted = sum(({ stats }) => stats().counters.accepted)
      t.ok(accepted < 1500, `${accepted} connections of one client`)
      const came = sum(({ stats }) => stats().counters.failed.PO ?? 0)
      t.ok(came > 0, 'and it is told why')
      await until('the log and status have it, too', () =>
        fixtures.some(
          ({ records, stats }) =>
            records.some(({ cause }) => cause === 'PO') &&
            stats().lastError.includes('it loops'),
        ),
      )
      const backend = await echoBackend(t, host)
      await fixtures[0]?.listen({ binds: at(port), endpoints: [backend.endpoint] })
      const other = dial(t, port, host)
      other.write('?')
      t.equal(String(await once(other, 'data')), '?', 'others are served')
    })

  t.test(`${name} drops a datagram that goes round`, async t => {
    const { port, sum } = await ring(t, 'UDP')
    const client = await udpClient(t, port, host)
    client.send('hello')
    await until(
      'it is dropped',
      () => sum(({ stats }) => stats().counters.datagramsDropped.loop ?? 0) === 1,
    )
    const sent = sum(({ stats }) => stats().counters.datagramsToBackend)
    t.ok(sent < 1500, `after ${sent} hops`)
  })

  if (makers.length > 1) return
  t.test('silent clients of a silent endpoint are no ring', async t => {
    const { listen, stats } = relayFixture(t, first)
    const [port, silent] = [await freeTcpPort(host), await tcpBackend(t, () => {}, host)]
    await listen({ binds: at(port), endpoints: [silent.endpoint] })
    const clients = Array.from({ length: 600 }, () => dial(t, port, host))
    await until('all are connected', () => silent.accepted === 600)
    for (const client of clients) client.write('syslog')
    dial(t, port, host)
    await until('one more has come', () => silent.accepted === 601)
    t.strictSame(stats().counters.failed.PO ?? 0, 0)
    t.ok(stats().counters.active >= 600)
  })
}
