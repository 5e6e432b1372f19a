import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import type { AccessLogOptions } from '../../../src/model/access-log.ts'
import type { AccessBatch } from '../../../src/relay/relay.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  endpoint,
  frontOf,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import {
  ask,
  dial,
  namedBackend,
  namedEcho,
  tcpBackend,
} from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const to = 'file:/nowhere'
const json: AccessLogOptions = { format: 'json', to, route: 'db' }
const tcplog: AccessLogOptions = { format: 'tcplog', to, route: 'db' }

const linesOf = (batches: readonly AccessBatch[]): string[] =>
  batches.flatMap(({ text }) => text.split('\n').slice(0, -1))

/** A line for each connection that has ended, however it has. */
export const tcpAccessLogContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, request: RelayRequest = { wants: false }) => {
    const fixture = relayFixture(t, make, request)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const listen = (spec: ListenerSpec) =>
      fixture.listen({ binds, accessLog: json, ...spec })
    const lines = (): string[] => linesOf(fixture.accessBatches)
    const objects = (): Record<string, unknown>[] =>
      lines().map(line => JSON.parse(line) as Record<string, unknown>)
    /** The only one, when it has come. */
    const line = async (): Promise<Record<string, unknown>> => {
      await until('there is a line', () => lines().length > 0)
      const [first, ...others] = objects()
      t.strictSame(others, [], 'and no other')
      return first ?? {}
    }
    return { ...fixture, port, binds, listen, lines, objects, line }
  }

  t.test('one that ends in order, as JSON', async t => {
    const { listen, port, line, records, stats, accessBatches } = await setUp(t)
    const { endpoint: alive } = await namedEcho(t, 'hello')
    const dead = endpoint(testHost, await freeTcpPort())
    await listen({ endpoints: [dead, { ...alive, tier: 1 }] })
    const before = Date.now()
    const client = dial(t, port)
    await once(client, 'data')
    client.end('some words').resume()
    const { localAddress: clientAddress, localPort: clientPort } = client
    await once(client, 'end')
    const found = await line()
    t.match(found, {
      'event.name': 'usher.connection',
      'usher.route': 'db',
      'network.transport': 'tcp',
      'network.type': 'ipv4',
      'server.address': testHost,
      'server.port': port,
      'client.address': clientAddress,
      'client.port': clientPort,
      'network.peer.address': testHost,
      'network.peer.port': alive.port,
      'usher.endpoint': alive.key,
      'usher.attempts': [
        { endpoint: dead.key, result: 'refused' },
        { endpoint: alive.key, result: 'connected' },
      ],
      'usher.bytes_from_client': 10,
      'usher.bytes_to_client': 15,
      'usher.hold_ms': 0,
      'usher.cause': '--',
      'usher.cause_text': 'finished',
    })
    t.notOk('usher.detail' in found)
    const [ended, accepted] = ['time', 'usher.accepted_time'].map(name =>
      Date.parse(String(found[name])),
    )
    const total = Number(found['usher.total_ms'])
    t.ok(Number(ended) >= before - 1 && Number(ended) <= Date.now())
    t.ok(Math.abs(Number(ended) - Number(accepted) - total) <= 2)
    t.ok(Number(found['usher.dial_ms']) <= total)
    t.strictSame(records, [], 'no record is made of what nobody wants')
    t.match(accessBatches, [{ listener: 'test/service:port', to, lines: 1, lost: 0 }])
    t.equal(stats().counters.accessLines, 1)
  })

  t.test('as HAProxy writes it', async t => {
    const { listen, port, lines } = await setUp(t)
    const { endpoint: alive } = await namedBackend(t, 'hello')
    await listen({ endpoints: [alive], accessLog: tcplog })
    await ask(port)
    await until('there is a line', () => lines().length === 1)
    const place = String.raw`127\.\S+:\d+`
    const time = String.raw`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\]`
    t.match(
      lines()[0],
      new RegExp(
        String.raw`^${place} ${time} db db/${place} 0/\d+/\d+ 5 -- 1/1/0/0/0 0/0$`,
      ),
    )
  })

  t.test('one that no endpoint took, and one that all closed early', async t => {
    const { listen, port, line, lines } = await setUp(t, {
      wants: false,
      limits: { dialLadder: [100] },
    })
    const dead = endpoint(testHost, await freeTcpPort())
    await listen({ endpoints: [dead] })
    await ask(port)
    const found = await line()
    t.match(found, {
      'usher.endpoint': '',
      'usher.cause': 'SC',
      'usher.detail': `ECONNREFUSED from ${dead.key}`,
      'usher.bytes_to_client': 0,
    })
    t.notOk('network.peer.address' in found)
    await listen({ endpoints: [dead], accessLog: tcplog })
    await ask(port)
    await until('there is another', () => lines().length === 2)
    t.match(lines()[1], ` db/${dead.key} 0/-1/`)
    const bad = await tcpBackend(t, socket => void socket.end())
    const retry = { earlyClose: true, replay: 0 }
    await listen({ endpoints: [bad.endpoint], retry, accessLog: json })
    const seen = lines().length
    await ask(port)
    await until('there is one more', () => lines().length > seen)
    t.equal(lines().length, 3)
  })

  t.test('resets, of either side', async t => {
    const { listen, port, lines, objects } = await setUp(t)
    const echo = await namedEcho(t, 'hello')
    await listen({ endpoints: [echo.endpoint] })
    const one = dial(t, port)
    await once(one, 'data')
    one.resetAndDestroy()
    await until('the first', () => lines().length === 1)
    const other = dial(t, port)
    other.on('error', () => {})
    await once(other, 'data')
    for (const socket of echo.sockets) socket.resetAndDestroy()
    await until('the second', () => lines().length === 2)
    t.strictSame(
      objects().map(line => [line['usher.cause'], line['usher.detail']]),
      [
        ['CD', 'ECONNRESET'],
        ['SD', 'ECONNRESET'],
      ],
    )
  })

  t.test('one that may not connect', async t => {
    const { listen, binds, port, line } = await setUp(t)
    const { endpoint: alive } = await namedBackend(t, 'hello')
    const front = frontOf(binds, { allowedClients: rangesOf(['192.0.2.0/24']) })
    await listen({ fronts: [front], endpoints: [alive] })
    await ask(port)
    t.match(await line(), {
      'usher.cause': 'PR',
      'client.address': '127.0.0.1',
      'usher.attempts': [],
    })
  })

  t.test('one that a pause cuts, and one that waited in it', async t => {
    const { listen, port, lines, objects, stats } = await setUp(t)
    const { endpoint: alive } = await namedEcho(t, 'hello')
    await listen({ endpoints: [alive] })
    const cut = dial(t, port)
    cut.on('error', () => {})
    await once(cut, 'data')
    await listen({ endpoints: [alive], paused: true, cut: 'all' })
    await until('it is cut', () => lines().length === 1)
    t.match(objects()[0], { 'usher.cause': 'DD', 'usher.endpoint': alive.key })
    const waits = dial(t, port)
    await until('it waits', () => stats().counters.held === 1)
    await new Promise(resolve => setTimeout(resolve, 100))
    await listen({ endpoints: [alive] })
    await once(waits, 'data')
    waits.end().resume()
    await until('it has ended', () => lines().length === 2)
    const [, held = {}] = objects()
    t.match(held, { 'usher.cause': '--' })
    t.ok(Number(held['usher.hold_ms']) >= 95, String(held['usher.hold_ms']))
    t.ok(Number(held['usher.hold_ms']) <= Number(held['usher.dial_ms']) + 1)
  })

  t.test('one that waited for a place', async t => {
    const { listen, port, lines, objects, stats } = await setUp(t)
    const { endpoint: alive } = await namedEcho(t, 'hello')
    const capacity = { maxConnections: 1, queueMs: 20_000, mostQueued: 8 }
    await listen({ endpoints: [alive], capacity })
    const first = dial(t, port)
    await once(first, 'data')
    const second = dial(t, port)
    await until('it waits', () => stats().counters.queued === 1)
    await new Promise(resolve => setTimeout(resolve, 100))
    first.end().resume()
    await once(second, 'data')
    second.end().resume()
    await until('both have ended', () => lines().length === 2)
    const [, waited = {}] = objects()
    t.equal(waited['usher.hold_ms'], 0)
    const [queue, dialled] = [
      Number(waited['usher.queue_ms']),
      Number(waited['usher.dial_ms']),
    ]
    t.ok(queue >= 95 && queue <= dialled + 1, `${queue} of ${dialled} ms`)
  })

  t.test('those that are open at the end', async t => {
    const { listen, port, lines, objects, relay } = await setUp(t)
    const { endpoint: alive } = await namedEcho(t, 'hello')
    await listen({ endpoints: [alive] })
    const clients: Socket[] = []
    for (let i = 0; i < 5; i += 1) {
      const client = dial(t, port)
      client.on('error', () => {})
      await once(client, 'data')
      clients.push(client)
    }
    await relay.drain(0)
    t.equal(lines().length, 5, 'all of them are here when the drain is over')
    for (const one of objects()) t.match(one, { 'usher.cause': 'KD' })
  })

  t.test('it is switched on and off without a restart', async t => {
    const { listen, port, lines, records } = await setUp(t, {})
    const { endpoint: alive } = await namedEcho(t, 'hello')
    const open = async (): Promise<Socket> => {
      const client = dial(t, port)
      await once(client, 'data')
      return client
    }
    await listen({ endpoints: [alive], accessLog: undefined })
    const [one, other] = [await open(), await open()]
    one.end().resume()
    await until('one has ended', () => records.length === 1)
    t.strictSame(lines(), [], 'it is off')
    await listen({ endpoints: [alive] })
    other.end().resume()
    await until('the other has its line', () => lines().length === 1)
    await until('and its record', () => records.length === 2)
    await listen({ endpoints: [alive], accessLog: undefined })
    const last = await open()
    last.end().resume()
    await until('it has ended', () => records.length === 3)
    t.equal(lines().length, 1)
  })
}
