import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { ServerNameRules } from '../../../src/model/traffic.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { helloFor } from '../../support/client-hello.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Endpoints by the server that a TLS client asks for. */
export const tcpServerNamesContract = (t: Test, make: MakeRelay): void => {
  /** Says its name and how many bytes it has heard when something has come. */
  const backend = (t: Test, name: string) =>
    tcpBackend(t, socket => {
      let bytes = 0
      socket.on('data', data => (bytes += data.length))
      socket.on('end', () => socket.end(`${name} ${bytes}`))
    })

  const setUp = async (t: Test, over: ListenerSpec = {}, hasOthers = true) => {
    const fixture = relayFixture(t, make)
    const port = await freeTcpPort()
    const [db, apps, others] = await Promise.all(
      ['db', 'apps', 'others'].map(name => backend(t, name)),
    )
    const keys = (one: typeof db): string[] =>
      one === undefined ? [] : [one.endpoint.key]
    const serverNames: ServerNameRules = {
      pools: [
        { names: ['db.example'], endpoints: keys(db) },
        { names: ['*.apps.example'], alpn: ['h2'], endpoints: keys(apps) },
      ],
      others: hasOthers ? keys(others) : undefined,
    }
    const endpoints = [db, apps, others].flatMap(one => one?.endpoint ?? [])
    const spec = { binds: [{ address: testHost, port }], endpoints, serverNames, ...over }
    await fixture.listen(spec)
    return { ...fixture, port, spec }
  }

  const endingOf = (client: Socket): Promise<string> =>
    new Promise(resolve => {
      let text = ''
      client.on('data', data => (text += data.toString()))
      client.on('end', () => resolve(text))
      client.on('error', ({ code = '' }: NodeJS.ErrnoException) => resolve(code))
    })

  t.test('each client gets those for it, and its hello is whole', async t => {
    const { port, records, stats } = await setUp(t)
    const said = async (hello: Buffer, cut = 0): Promise<string> => {
      const client = dial(t, port)
      const ending = endingOf(client)
      if (cut > 0) {
        client.write(hello.subarray(0, cut))
        await sleep(5)
      }
      client.end(hello.subarray(cut))
      return ending
    }
    const [db, app, other, none] = [
      await helloFor(t, 'DB.Example'),
      await helloFor(t, 'a.b.apps.example', 'h2'),
      await helloFor(t, 'a.b.apps.example'),
      await helloFor(t, ''),
    ]
    t.equal(await said(db), `db ${db.length}`)
    t.equal(await said(app), `apps ${app.length}`)
    t.equal(await said(other), `others ${other.length}`)
    t.equal(await said(none), `others ${none.length}`)
    t.equal(await said(Buffer.from('GET / HTTP/1.0\r\n\r\n')), 'others 18')
    for (const cut of [1, 2, 5, 6, 9, 50, db.length - 1])
      t.equal(await said(db, cut), `db ${db.length}`, `${cut}`)
    await until('all are recorded', () => records.length === 12)
    t.strictSame(stats().counters.failed, {})
    t.equal(records[0]?.bytesToBackend, db.length)
  })

  t.test('without endpoints for others these are refused', async t => {
    const { port, records, relay, stats } = await setUp(t, {}, false)
    for (const bytes of [await helloFor(t, 'x.example'), Buffer.from('plain')]) {
      const client = dial(t, port)
      const ending = endingOf(client)
      client.write(bytes)
      t.equal(await ending, 'ECONNRESET')
    }
    await until('both are recorded', () => records.length === 2)
    t.ok(records.every(({ cause }) => cause === 'PN'))
    t.strictSame(stats().counters.failed, { PN: 2 })
    const refusals = [
      'no pool matches "x.example"',
      'no pool matches a client without a name',
    ]
    t.strictSame(
      records.map(({ detail }) => detail),
      refusals,
    )
    await until('it is told', () => refusals.includes(stats().lastError))
    t.equal(carryingFds(relay.stats()), 0)
  })

  t.test('a hello that does not end', async t => {
    const { port, records } = await setUp(t)
    const hello = await helloFor(t, 'db.example')
    const half = dial(t, port)
    const ending = endingOf(half)
    half.end(hello.subarray(0, 20))
    t.equal(await ending, 'ECONNRESET', 'cut off')
    const late = dial(t, port)
    const lateEnding = endingOf(late)
    late.write(hello.subarray(0, 20))
    t.equal(await lateEnding, 'ECONNRESET', 'after 5 s')
    await until('both are recorded', () => records.length === 2)
    t.ok(records.every(({ cause }) => cause === 'PH'))
  })

  t.test('who may not connect is not listened to', async t => {
    const { port, records, spec, listen } = await setUp(t)
    const client = (): Socket => {
      const socket = dial(t, port)
      socket.on('error', () => {})
      return socket
    }
    await listen({ ...spec, clients: { deny: [rangesOf(['127.0.0.0/8'])] } })
    t.equal(await endingOf(client()), 'ECONNRESET')
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'PR' })
    await listen({ ...spec, clients: undefined, limits: { clientConnections: 2 } })
    const slow = [client(), client()]
    for (const socket of slow) await once(socket, 'connect')
    t.equal(await endingOf(client()), 'ECONNRESET')
    await until('it is recorded', () => records.length === 2)
    t.match(records[1], { cause: 'PL', detail: 'max-client-connections' })
    const [left, stays] = slow
    left?.destroy()
    await until('one has left', () => records.length === 3)
    const hello = await helloFor(t, 'db.example')
    const next = client()
    next.end(hello)
    t.equal(await endingOf(next), `db ${hello.length}`)
    stays?.end(hello)
    t.equal(stays && (await endingOf(stays)), `db ${hello.length}`)
    await until('all are recorded', () => records.length === 5)
    t.strictSame(
      records.slice(2).map(({ cause }) => cause),
      ['CC', '--', '--'],
    )
    const others = [client(), client()]
    const endings = others.map(endingOf)
    for (const other of others) other.end(hello)
    const all = [`db ${hello.length}`, `db ${hello.length}`]
    t.strictSame(await Promise.all(endings), all, 'each has given its place back')
  })

  t.test('behind the header of a proxy', async t => {
    const { port, records } = await setUp(t, { acceptProxy: rangesOf(['127.0.0.0/8']) })
    const hello = await helloFor(t, 'db.example')
    const client = dial(t, port)
    const ending = endingOf(client)
    client.write('PROXY TCP4 192.0.2.9 198.51.100.8 5501 443\r\n')
    await once(client, 'connect')
    client.end(hello)
    t.equal(await ending, `db ${hello.length}`)
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { client: '192.0.2.9:5501', bytesToBackend: hello.length })
  })
}
