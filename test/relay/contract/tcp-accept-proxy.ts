import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { ownHeader, proxyHeader, proxyVersions } from '../../../src/util/proxy-header.ts'
import { onLinux } from '../../support/connection.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  frontOf,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { dial, echoBackend, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const source = { address: '192.0.2.77', port: 5501 }
const destination = { address: '198.51.100.8', port: 443 }
const v1 = 'PROXY TCP4 192.0.2.77 198.51.100.8 5501 443\r\n'
const all = rangesOf(['127.0.0.0/8', '::1'])

/** Clients that come by a proxy, which says who they are. `makeOfMany`: of several workers. */
export const tcpAcceptProxyContract = (
  t: Test,
  make: MakeRelay,
  makeOfMany: MakeRelay = make,
): void => {
  const setUp = async (t: Test, spec: ListenerSpec, by: MakeRelay = make) => {
    const fixture = relayFixture(t, by)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const listen = (over: ListenerSpec) =>
      fixture.listen({ binds, acceptProxy: all, ...over })
    await listen(spec)
    return { ...fixture, port, binds, listen }
  }

  /** What a client gets until it ends, and how that is. */
  const endingOf = (client: Socket): Promise<string> =>
    new Promise(resolve => {
      let text = ''
      client.on('data', data => (text += data.toString('latin1')))
      client.on('end', () => resolve(`${text} end`))
      client.on('error', ({ code = '' }: NodeJS.ErrnoException) =>
        resolve(`${text} ${code}`),
      )
    })

  for (const version of proxyVersions) {
    const header = proxyHeader(version, source, destination)

    t.test(`${version}: who the client is, with what it says in one piece`, async t => {
      const backend = await echoBackend(t)
      const { port, records, relay, stats } = await setUp(t, {
        endpoints: [backend.endpoint],
      })
      const client = dial(t, port)
      client.end(Buffer.concat([header, Buffer.from('a question')]))
      t.equal(await endingOf(client), 'a question end')
      await until('it is recorded', () => records.length === 1)
      t.match(records[0], {
        client: '192.0.2.77:5501',
        cause: '--',
        bytesToBackend: 10,
        bytesToClient: 10,
      })
      t.match(stats().counters, { accepted: 1, active: 0, failed: {} })
      t.equal(carryingFds(relay.stats()), 0)
    })

    t.test(`${version}: byte by byte, and a lot behind it`, async t => {
      const backend = await echoBackend(t)
      const { port, records } = await setUp(t, { endpoints: [backend.endpoint] })
      const client = dial(t, port)
      client.setNoDelay(true)
      const ending = endingOf(client)
      for (const byte of header) {
        client.write(Buffer.from([byte]))
        await sleep(1)
      }
      const much = 'ab'.repeat(500_000)
      client.end(much)
      t.equal(await ending, `${much} end`)
      await until('it is recorded', () => records.length === 1)
      t.match(records[0], { client: '192.0.2.77:5501', bytesToBackend: 1_000_000 })
    })

    t.test(`${version}: a server that speaks first is not kept waiting`, async t => {
      const backend = await namedBackend(t, 'welcome')
      const { port } = await setUp(t, { endpoints: [backend.endpoint] })
      const client = dial(t, port)
      client.write(header)
      t.equal(await endingOf(client), 'welcome end')
    })

    t.test(`${version}: a proxy's own connection`, async t => {
      const backend = await namedBackend(t, 'hello')
      const { port, records } = await setUp(t, { endpoints: [backend.endpoint] })
      const client = dial(t, port)
      client.write(ownHeader(version))
      t.equal(await endingOf(client), 'hello end')
      client.end()
      await until('it is recorded', () => records.length === 1)
      t.match(records[0]?.client, /^127\./)
    })

    t.test(`${version}: it is sent on`, async t => {
      const backend = await echoBackend(t)
      const { port } = await setUp(t, {
        endpoints: [backend.endpoint],
        proxyProtocol: version,
      })
      const client = dial(t, port)
      client.end(Buffer.concat([Buffer.from(v1), Buffer.from('x')]))
      t.equal(await endingOf(client), `${header.toString('latin1')}x end`)
    })
  }

  t.test('from elsewhere clients are plain ones, and a header is theirs', async t => {
    const backend = await echoBackend(t)
    const { port, records } = await setUp(t, {
      endpoints: [backend.endpoint],
      acceptProxy: rangesOf(['192.0.2.0/24']),
    })
    const client = dial(t, port)
    client.end(v1)
    t.equal(await endingOf(client), `${v1} end`)
    await until('it is recorded', () => records.length === 1)
    t.match(records[0]?.client, /^127\./)
  })

  t.test('lists and source ranges are about the client', async t => {
    const backend = await namedBackend(t, 'in')
    const { port, records, listen, binds, stats } = await setUp(t, {
      endpoints: [backend.endpoint],
    })
    const said = async (): Promise<string> => {
      const client = dial(t, port)
      client.write(v1)
      const ending = await endingOf(client)
      client.destroy()
      return ending
    }
    const endpoints = [backend.endpoint]
    const [mine, others] = [rangesOf(['192.0.2.77']), rangesOf(['127.0.0.0/8'])]
    await listen({ endpoints, clients: { allow: [mine] } })
    t.equal(await said(), 'in end')
    await listen({ endpoints, clients: { allow: [others] } })
    t.equal(await said(), ' ECONNRESET')
    await listen({ endpoints, clients: { deny: [mine] } })
    t.equal(await said(), ' ECONNRESET')
    await listen({ endpoints, fronts: [frontOf(binds, { allowedClients: others })] })
    t.equal(await said(), ' ECONNRESET')
    await listen({ endpoints, fronts: [frontOf(binds, { allowedClients: mine })] })
    t.equal(await said(), 'in end')
    await until('all are recorded', () => records.length === 5)
    t.equal(stats().counters.failed.PR, 3)
    t.strictSame([...new Set(records.map(({ client }) => client))], ['192.0.2.77:5501'])
  })

  t.test('limits are about the client, by whichever proxy it comes', onLinux, async t => {
    const backend = await echoBackend(t)
    const { port, stats } = await setUp(
      t,
      { endpoints: [backend.endpoint], limits: { clientConnections: 1 } },
      makeOfMany,
    )
    const client = (last: number, proxy = 10): Socket => {
      const socket = dial(t, port, testHost, `127.0.0.${proxy}`)
      socket.on('error', () => {})
      socket.write(`PROXY TCP4 192.0.2.${last} 198.51.100.8 1 443\r\nx`)
      return socket
    }
    const first = client(1)
    await once(first, 'data')
    for (const proxy of [10, 11, 12, 13, 14])
      t.equal(await endingOf(client(1, proxy)), ' ECONNRESET')
    await once(client(2), 'data')
    first.end()
    await once(first, 'end')
    await until('it is over', () => stats().counters.active === 1)
    await once(client(1), 'data')
    t.strictSame(stats().counters.failed, { PL: 5 })
  })

  t.test('affinity is the client’s, by whichever proxy it comes', onLinux, async t => {
    const backends = await Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))
    const endpoints = backends.map(one => one.endpoint)
    const { port } = await setUp(t, { endpoints, affinityMs: 60_000 }, makeOfMany)
    const said = (last: number, proxy: number): Promise<string> => {
      const client = dial(t, port, testHost, `127.0.0.${proxy}`)
      client.end(`PROXY TCP4 192.0.2.${last} 198.51.100.8 1 443\r\n`)
      return endingOf(client)
    }
    const seen = new Set<string>()
    for (let last = 1; last <= 6; last += 1) {
      const first = await said(last, 10)
      seen.add(first)
      for (const proxy of [11, 12, 13, 14]) t.equal(await said(last, proxy), first)
    }
    t.equal(seen.size, 3)
  })

  t.test('what is no header ends the connection', async t => {
    const backend = await namedBackend(t, 'never')
    const { port, records, relay, stats } = await setUp(t, {
      endpoints: [backend.endpoint],
    })
    const bad = [
      'GET / HTTP/1.0\r\n\r\n',
      'PROXY TCP4 192.0.2.300 198.51.100.8 5501 443\r\n',
      `PROXY UNKNOWN ${'x'.repeat(200)}`,
      `\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff`,
    ]
    for (const text of bad) {
      const client = dial(t, port)
      client.write(Buffer.from(text, 'latin1'))
      t.equal(await endingOf(client), ' ECONNRESET')
    }
    const half = dial(t, port)
    half.end('PROXY TCP4 192')
    t.equal(await endingOf(half), ' ECONNRESET')
    await until('all are recorded', () => records.length === 5)
    t.ok(records.every(({ cause, detail }) => cause === 'PH' && detail !== ''))
    t.strictSame(stats().counters.failed, { PH: 5 })
    t.equal(backend.accepted, 0)
    t.equal(carryingFds(relay.stats()), 0)
  })

  t.test('who leaves without a word, or at a bad moment', async t => {
    const backend = await namedBackend(t, 'x')
    const { port, records, relay, stats } = await setUp(t, {
      endpoints: [backend.endpoint],
    })
    const silent = [dial(t, port), dial(t, port)]
    for (const client of silent) {
      client.on('error', () => {})
      await once(client, 'connect')
    }
    await until('they are there', () => stats().counters.active === 2)
    silent[0]?.end()
    if (silent[1] !== undefined) reset(silent[1])
    await until('both are recorded', () => records.length === 2)
    t.strictSame(stats().counters.failed, { CC: 2 })
    const spoke = dial(t, port)
    spoke.on('error', () => {})
    spoke.write('PROXY TCP')
    await sleep(50)
    reset(spoke)
    await until('it is recorded', () => records.length === 3)
    t.match(records[2], { cause: 'PH' })
    t.equal(carryingFds(relay.stats()), 0)
  })

  t.test('one that takes longer than 5 s', async t => {
    const backend = await namedBackend(t, 'x')
    const { port, records } = await setUp(t, { endpoints: [backend.endpoint] })
    const start = performance.now()
    const clients = [dial(t, port), dial(t, port)]
    clients[0]?.write('PROXY TCP4 ')
    t.strictSame(await Promise.all(clients.map(endingOf)), [' ECONNRESET', ' ECONNRESET'])
    const ms = performance.now() - start
    t.ok(ms > 4900, `${ms} ms`)
    await until('both are recorded', () => records.length === 2)
    for (const { cause, totalMs } of records) {
      t.equal(cause, 'PH')
      t.ok(totalMs > 4900)
    }
  })

  t.test('a drain ends those that have not said it', async t => {
    const backend = await tcpBackend(t, () => {})
    const { port, relay, stats } = await setUp(t, { endpoints: [backend.endpoint] })
    const clients = [dial(t, port), dial(t, port)]
    clients[0]?.write(`${v1}x`)
    await until('one is through', () => backend.accepted === 1)
    await until('both are there', () => stats().counters.active === 2)
    const endings = clients.map(endingOf)
    t.strictSame(await relay.drain(50), { reset: 2 })
    t.strictSame(await Promise.all(endings), [' ECONNRESET', ' ECONNRESET'])
  })

  t.test('it ends with the option, also for those that have not said it', async t => {
    const backend = await echoBackend(t)
    const endpoints = [backend.endpoint]
    const { port, listen } = await setUp(t, { endpoints })
    const before = dial(t, port)
    before.write('PROXY ')
    await once(before, 'connect')
    await sleep(20)
    await listen({ endpoints, acceptProxy: undefined })
    const after = dial(t, port)
    after.end('plain')
    t.equal(await endingOf(after), 'plain end')
    before.end(`${v1.slice(6)}rest`)
    t.equal(await endingOf(before), 'rest end')
  })
}
