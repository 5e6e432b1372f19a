import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RetryOptions } from '../../../src/model/traffic.ts'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { withIpv6 } from '../../support/connection.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const quiet = { earlyClose: true, replay: 0 }
const versions = ['v1', 'v2'] as const
type Version = (typeof versions)[number]

/** What a client's endpoint is told first, by a second reading of the specification. */
const headerOf = (version: Version, client: Socket): Buffer => {
  const { localAddress = '', localPort = 0, remoteAddress = '', remotePort = 0 } = client
  const isIpv6 = localAddress.includes(':')
  if (version === 'v1')
    return Buffer.from(
      `PROXY TCP${isIpv6 ? 6 : 4} ${localAddress} ${remoteAddress} ${localPort} ${remotePort}\r\n`,
    )
  const hex = (value: number) => value.toString(16).padStart(4, '0')
  const bytes = (address: string) =>
    address === '::1'
      ? `${'00'.repeat(15)}01`
      : Buffer.from(address.split('.').map(Number)).toString('hex')
  return Buffer.from(
    `0d0a0d0a000d0a515549540a21${isIpv6 ? '210024' : '11000c'}` +
      `${bytes(localAddress)}${bytes(remoteAddress)}${hex(localPort)}${hex(remotePort)}`,
    'hex',
  )
}

/** Endpoints that are told who the client is. */
export const tcpProxyHeaderContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (
    t: Test,
    version: Version,
    endpoints: readonly RelayEndpoint[],
    retry: RetryOptions = quiet,
    host = testHost,
  ) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [2000] } })
    const port = await freeTcpPort(host)
    const listen = (all: readonly RelayEndpoint[]) =>
      fixture.listen({
        binds: [{ address: host, port }],
        endpoints: all,
        retry,
        proxyProtocol: version,
      })
    await listen(endpoints)
    return { ...fixture, port, listen }
  }

  /** Keeps what each connection has been told, apart. */
  const hearing = async (
    t: Test,
    serve: (socket: Socket) => void = () => {},
    host = testHost,
  ) => {
    const heard: Buffer[] = []
    const pieces: number[] = []
    const server = await tcpBackend(
      t,
      socket => {
        const which = heard.push(Buffer.alloc(0)) - 1
        pieces.push(0)
        socket.on('data', data => {
          heard[which] = Buffer.concat([heard[which] ?? Buffer.alloc(0), data])
          pieces[which] = (pieces[which] ?? 0) + 1
        })
        serve(socket)
      },
      host,
    )
    return { ...server, heard, pieces, server }
  }

  const connected = async (t: Test, port: number, host = testHost): Promise<Socket> => {
    const client = dial(t, port, host)
    client.on('error', () => {})
    await once(client, 'connect')
    return client
  }

  for (const version of versions) {
    t.test(`${version}: at once, before anybody has spoken`, async t => {
      const backend = await hearing(t)
      const { port, records, stats } = await setUp(t, version, [backend.endpoint])
      const client = await connected(t, port)
      const header = headerOf(version, client)
      await until('the header has come', () => backend.heard[0]?.length === header.length)
      t.same(backend.heard[0], header)
      client.end('a question')
      await until(
        'the question, too',
        () => (backend.heard[0]?.length ?? 0) > header.length,
      )
      t.same(backend.heard[0], Buffer.concat([header, Buffer.from('a question')]))
      for (const socket of backend.server.sockets) socket.end('an answer')
      t.equal(String(await once(client, 'data')), 'an answer')
      await until('it is recorded', () => records.length === 1)
      t.match(records[0], { cause: '--', bytesToBackend: 10, bytesToClient: 9 })
      t.match(stats().counters, { bytesToBackend: 10, failed: {} })
    })

    t.test(`${version}: a client's end follows it`, async t => {
      const backend = await hearing(
        t,
        socket => void socket.on('end', () => socket.end()),
      )
      const { port, records } = await setUp(t, version, [backend.endpoint])
      const client = await connected(t, port)
      const header = headerOf(version, client)
      client.end()
      await once(client.resume(), 'end')
      await until('it is recorded', () => records.length === 1)
      t.same(backend.heard, [header])
      t.match(records[0], { cause: '--' })
    })

    t.test(
      `${version}: once for each endpoint, which has then heard nothing`,
      async t => {
        const closes = (close: (socket: Socket) => void) =>
          hearing(t, socket => {
            socket.once('data', () => close(socket))
          })
        const early = [await closes(socket => void socket.end()), await closes(reset)]
        const good = await hearing(
          t,
          socket => void socket.once('data', () => socket.end('hello')),
        )
        const all = [...early, good]
        const { port, records, relay, listen } = await setUp(
          t,
          version,
          all.map(one => one.endpoint),
        )
        for (let i = 0; i < 8; i += 1) {
          // None of them rests any longer.
          await listen([])
          await listen(all.map(one => one.endpoint))
          const client = await connected(t, port)
          const header = headerOf(version, client)
          t.equal(String(await once(client, 'data')), 'hello')
          client.destroy()
          for (const { heard } of all)
            for (const bytes of heard.splice(0)) t.same(bytes, header)
        }
        await until('all are recorded', () => records.length === 8)
        t.ok(
          records.some(({ attempts }) => attempts.length > 1),
          'some had two',
        )
        await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
      },
    )

    t.test(`${version}: before what is said again`, async t => {
      const early = await hearing(t, socket => {
        let count = 0
        socket.on('data', data => {
          count += data.length
          if (count > 60) socket.end()
        })
      })
      const good = await hearing(t)
      const all = [early.endpoint, { ...good.endpoint, tier: 1 }]
      const { port } = await setUp(t, version, all, { earlyClose: true, replay: 1000 })
      const client = await connected(t, port)
      const said = Buffer.from(
        'a question of more than 60 characters, whoever counts them',
      )
      client.write(said)
      const wanted = Buffer.concat([headerOf(version, client), said])
      await until('the other has heard it', () => good.heard[0]?.length === wanted.length)
      t.same(good.heard[0], wanted)
      t.same(early.heard[0], wanted)
    })

    t.test(`${version}: to an end that was kept only once`, async t => {
      const sink = await hearing(t, socket => void socket.end())
      const gone = endpoint(testHost, await freeTcpPort())
      const { port, records } = await setUp(t, version, [
        sink.endpoint,
        { ...gone, tier: 1 },
      ])
      const client = await connected(t, port)
      const header = headerOf(version, client)
      await once(client.resume(), 'end')
      client.end('last words')
      await until('it is recorded', () => records.length === 1)
      const wanted = Buffer.concat([header, Buffer.from('last words')])
      await until('all has come', () => sink.heard[0]?.length === wanted.length)
      t.same(sink.heard, [wanted])
    })
  }

  t.test('with what has been said before in one piece', async t => {
    const backend = await hearing(t)
    const { port, listen } = await setUp(t, 'v2', [], { ...quiet, holdMs: 20_000 })
    const client = await connected(t, port)
    client.write('said while it waited')
    await sleep(50)
    await listen([backend.endpoint])
    const wanted = Buffer.concat([
      headerOf('v2', client),
      Buffer.from('said while it waited'),
    ])
    await until('all has come', () => backend.heard[0]?.length === wanted.length)
    t.same(backend.heard[0], wanted)
    t.equal(backend.pieces[0], 1)
  })

  t.test('and a lot behind it comes whole', async t => {
    const backend = await hearing(t)
    const { port } = await setUp(t, 'v1', [backend.endpoint])
    const client = await connected(t, port)
    const much = Buffer.alloc(3_000_000, 'ab')
    client.end(much)
    const wanted = Buffer.concat([headerOf('v1', client), much])
    await until('all has come', () => backend.heard[0]?.length === wanted.length)
    t.ok(backend.heard[0]?.equals(wanted))
  })

  t.test('of IPv6', withIpv6, async t => {
    for (const version of versions) {
      // The endpoint's own family does not matter.
      const backend = await hearing(t)
      const { port } = await setUp(t, version, [backend.endpoint], quiet, '::1')
      const client = await connected(t, port, '::1')
      const header = headerOf(version, client)
      await until('the header has come', () => backend.heard[0]?.length === header.length)
      t.same(backend.heard[0], header)
    }
  })

  t.test('it begins and ends with the option, for new connections', async t => {
    const backend = await hearing(t)
    const fixture = relayFixture(t, make)
    const binds = [{ address: testHost, port: await freeTcpPort() }]
    const endpoints = [backend.endpoint]
    const said = async (proxyProtocol: Version | undefined): Promise<string> => {
      await fixture.listen({ binds, endpoints, proxyProtocol })
      const before = backend.heard.length
      const client = await connected(t, binds[0]?.port ?? 0)
      client.end('x')
      const last = () => backend.heard[before]?.toString('latin1') ?? ''
      await until('it has come', () => last().endsWith('x'))
      return last().replace(/\d+(?= \d+\r)/, '')
    }
    t.equal(await said(undefined), 'x')
    t.match(await said('v1'), /^PROXY TCP4 .*\r\nx$/)
    t.equal(await said(undefined), 'x')
  })
}
