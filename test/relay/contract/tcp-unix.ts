import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayLimits } from '../../../src/relay/relay.ts'
import { joinHostPort } from '../../../src/util/ip.ts'
import { unixPath } from '../../../src/util/unix-address.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  listenerSpec,
  type MakeRelay,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import {
  ask,
  dial,
  echoBackend,
  namedBackend,
  tcpBackend,
} from '../../support/tcp-backend.ts'
import { unixFixture } from '../../support/unix-fixture.ts'
import {
  deadSocket,
  dialUnix,
  fullUnixBackend,
  readToEnd,
  unixBackend,
} from '../../support/unix-socket.ts'
import { until } from '../../support/until.ts'

/** Unlike itself at each place, and far more than any buffer. */
const much = Buffer.from(
  Array.from({ length: 4 << 20 }, (_, i) => (i * 31 + (i >> 9)) & 255),
)

/** `skipAbstract`: why this relay has no abstract sockets. */
export const tcpUnixContract = (
  t: Test,
  make: MakeRelay,
  skipAbstract: string | false = false,
): void => {
  const setUp = (t: Test, limits?: Partial<RelayLimits>) => unixFixture(t, make, limits)

  t.test('clients come by a socket of the file system', async t => {
    const { listen, relay, records, stats } = setUp(t)
    const backend = await echoBackend(t)
    const address = await listen([backend.endpoint])
    const path = unixPath(address)
    t.equal(statSync(path).mode & 0o777, 0o660)
    const client = dialUnix(t, address)
    client.end('hello')
    t.match(await readToEnd(client), { bytes: Buffer.from('hello'), how: 'end' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { client: 'unix:', endpoint: backend.endpoint.key, cause: '--' })
    t.match(stats().binds, [{ bind: { address }, state: 'listening' }])
    await relay.apply([])
    t.notOk(existsSync(path))
  })

  t.test('endpoints are sockets, half-closed as those of TCP', async t => {
    const { overTcp, records, unixAt } = setUp(t)
    const address = unixAt('db')
    const backend = await unixBackend(t, address, socket => void socket.pipe(socket))
    const port = await overTcp([backend.endpoint])
    const client = dial(t, port)
    client.end('hello')
    t.match(await readToEnd(client), { bytes: Buffer.from('hello'), how: 'end' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { endpoint: address, cause: '--' })
  })

  for (const heldBytes of [64 << 20, 0])
    t.test(`bulk in both directions at once, ${heldBytes} bytes held`, async t => {
      const { listen, unixAt, stats } = setUp(t, { heldBytes })
      const got: Promise<{ bytes: Buffer; how: string }>[] = []
      const backend = await unixBackend(t, unixAt('db'), socket => {
        got.push(readToEnd(socket))
        socket.end(much)
      })
      const address = await listen([backend.endpoint])
      for (let round = 0; round < 3; round += 1) {
        const client = dialUnix(t, address)
        client.end(much)
        const { bytes, how } = await readToEnd(client)
        t.equal(how, 'end')
        t.ok(bytes.equals(much), `${bytes.length}`)
        const there = await got.at(-1)
        t.ok(there?.bytes.equals(much), `${there?.bytes.length}`)
      }
      await until('all have ended', () => stats().counters.active === 0)
    })

  t.test(
    'a client that says its word and closes is heard, also while it is dialled for',
    async t => {
      const { listen, stats } = setUp(t, { dialLadder: [300, 15_000] })
      const heard: Promise<{ bytes: Buffer }>[] = []
      const backend = await tcpBackend(t, socket => {
        heard.push(readToEnd(socket))
        socket.on('end', () => socket.end())
      })
      // Nobody is there, and nothing says so.
      const silent = endpoint('192.0.2.1', 9)
      for (const endpoints of [[backend.endpoint], [silent, backend.endpoint]]) {
        const address = await listen(endpoints)
        const before = heard.length
        for (let i = 0; i < 10; i += 1) {
          const client = dialUnix(t, address)
          await once(client, 'connect')
          client.write(`word ${i}`, () => client.destroy())
        }
        await until('all are served', () => heard.length === before + 10)
        const said = await Promise.all(heard.slice(before))
        t.strictSame(
          said.map(({ bytes }) => bytes.toString()).toSorted(),
          Array.from({ length: 10 }, (_, i) => `word ${i}`),
        )
      }
      await until('nothing is left', () => stats().counters.active === 0)
    },
  )

  t.test('an endpoint that answers and closes at once', async t => {
    const { overTcp, unixAt } = setUp(t)
    const backend = await unixBackend(t, unixAt('db'), socket => {
      socket.write('bye', () => socket.destroy())
    })
    const port = await overTcp([backend.endpoint])
    for (let i = 0; i < 20; i += 1) t.match(await ask(port), { text: 'bye', how: 'end' })
  })

  for (const ms of [0, 50])
    t.test(
      `an endpoint that leaves words of its client unread has reset it, after ${ms} ms`,
      async t => {
        const { overTcp, unixAt, records } = setUp(t)
        const serve = (socket: Socket): void => {
          // The client's words are there by then, and are not read.
          setTimeout(() => {
            socket.write('some', () => setTimeout(() => socket.destroy(), ms))
          }, 100)
        }
        const backend = await unixBackend(t, unixAt('db'), serve, true)
        const port = await overTcp([backend.endpoint])
        const client = dial(t, port)
        client.write('unread')
        const { bytes, how } = await readToEnd(client)
        t.equal(bytes.toString(), 'some')
        // That of the test may take what comes at once with data for an end (libuv).
        if (ms > 0) t.equal(how, 'ECONNRESET')
        await until('it is recorded', () => records.length === 1)
        t.match(records[0], { cause: 'SD', detail: 'ECONNRESET' })
      },
    )

  t.test(
    'what a reset client was sent is not lost, and the rest of Usher goes on',
    async t => {
      const { listen, stats } = setUp(t)
      const backend = await tcpBackend(t, socket => {
        socket.write('some')
        setTimeout(() => reset(socket), 50)
      })
      const address = await listen([backend.endpoint])
      // A unix socket can't be reset: its end is all that can be told.
      t.match(await readToEnd(dialUnix(t, address)), {
        bytes: Buffer.from('some'),
        how: 'end',
      })
      await until('it is counted', () => stats().counters.failed.SD === 1)
    },
  )

  t.test(
    'sockets that are not there, or dead, or not sockets, are passed over',
    async t => {
      const { listen, unixAt, folder, records } = setUp(t)
      await deadSocket(join(folder, 'dead'))
      writeFileSync(join(folder, 'file'), '')
      const there = await namedBackend(t, 'there')
      const places = [...['missing', 'dead', 'file'].map(unixAt), there.endpoint.address]
      const inOrder = places.map((address, tier) => {
        const { port } = address === there.endpoint.address ? there.endpoint : { port: 0 }
        return { key: joinHostPort(address, port), address, port, tier }
      })
      const address = await listen(inOrder)
      t.match(await readToEnd(dialUnix(t, address)), {
        bytes: Buffer.from('there'),
        how: 'end',
      })
      await until('it is recorded', () => records.length === 1)
      t.match(
        records[0]?.attempts.map(({ result }) => result),
        ['ENOENT', 'refused', 'refused', 'connected'],
      )
    },
  )

  t.test('a queue that is full is no refusal: the client waits', async t => {
    const { overTcp, unixAt, records, stats } = setUp(t)
    const address = unixAt('db')
    const accept = await fullUnixBackend(t, address)
    const port = await overTcp([{ key: address, address, port: 0 }])
    const client = dial(t, port)
    const served = readToEnd(client)
    await until('it is dialled for', () => stats().counters.active === 1)
    await sleep(200)
    t.equal(records.length, 0)
    accept()
    t.match(await served, { bytes: Buffer.from('served'), how: 'end' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0]?.attempts, [{ result: 'connected' }])
    t.equal(stats().endpoints[0]?.failures, 0)
  })

  t.test('a client that leaves while a queue is full leaves nothing behind', async t => {
    const { overTcp, unixAt, relay, stats } = setUp(t)
    const address = unixAt('db')
    await fullUnixBackend(t, address)
    const port = await overTcp([{ key: address, address, port: 0 }])
    const client = dial(t, port)
    await once(client, 'connect')
    await until('it is dialled for', () => stats().counters.active === 1)
    reset(client)
    await until('nothing is left', () => stats().counters.active === 0)
    await until('no descriptor is', () => carryingFds(relay.stats()) === 0)
  })

  t.test('abstract sockets', { skip: skipAbstract }, async t => {
    const { folder, relay } = setUp(t)
    const backend = await echoBackend(t)
    const port = await freeTcpPort()
    const bind = { address: `unix:@${folder}`, port: 0 }
    const own = { key: bind.address, ...bind }
    const before = {
      id: 'before',
      binds: [{ address: testHost, port }],
      endpoints: [own],
    }
    const behind = { id: 'behind', binds: [bind], endpoints: [backend.endpoint] }
    await relay.apply([before, behind].map(listenerSpec))
    const client = dial(t, port)
    client.end('hello')
    t.match(await readToEnd(client), { bytes: Buffer.from('hello'), how: 'end' })
    const names = readFileSync('/proc/net/unix', 'latin1').split('\n')
    t.ok(
      names.some(name => name.endsWith(` @${folder}`)),
      'nothing is added to its name',
    )
  })

  t.test('an endpoint is told by PROXY that its client has no address', async t => {
    const { listen } = setUp(t)
    const backend = await echoBackend(t)
    const address = await listen([backend.endpoint], { proxyProtocol: 'v1' })
    const client = dialUnix(t, address)
    client.end('hello')
    t.match(await readToEnd(client), { bytes: Buffer.from('PROXY UNKNOWN\r\nhello') })
  })

  t.test('limits of a route count clients of its socket', async t => {
    const { listen, stats } = setUp(t)
    const backend = await tcpBackend(t, socket => void socket.write('in'))
    const address = await listen([backend.endpoint], { limits: { routeConnections: 2 } })
    for (let i = 0; i < 2; i += 1) await once(dialUnix(t, address), 'data')
    t.match(await readToEnd(dialUnix(t, address)), { bytes: Buffer.alloc(0) })
    t.match(stats().counters.failed, { PL: 1 })
  })
}
