import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { wasReset } from '../../../src/relay/sockets/node/reset.ts'
import { reset } from '../../support/reset.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/**
 * Less than a new connection's window (64 KiB): the kernel takes it in whether the relay has
 * its turn or not, where a reset throws away what has not been sent.
 */
const oneWindow = 50_000

/** What a socket saw, in order: counted bytes, then how it ended. */
const watch = (socket: Socket): { bytes: number; events: string[] } => {
  const seen = { bytes: 0, events: [] as string[] }
  socket.on('data', chunk => (seen.bytes += chunk.length))
  socket.on('end', () => {
    // Data and a reset that come together look like an end to Node; see wasReset.
    if (!wasReset(socket)) return seen.events.push('end')
    seen.events.push('ECONNRESET')
    return socket.destroy()
  })
  socket.on('error', (error: NodeJS.ErrnoException) =>
    seen.events.push(error.code ?? error.message),
  )
  socket.on('close', () => seen.events.push('close'))
  return seen
}

const first = async <T>(list: readonly T[]): Promise<T> => {
  await until('there is one', () => list.length > 0)
  const [item] = list
  if (item === undefined) throw new Error('gone')
  return item
}

/** Resets, idle limits and how the end of a connection is told. */
export const tcpEndContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, request = {}, over: ListenerSpec = {}) => {
    const fixture = relayFixture(t, make, request)
    const port = await freeTcpPort()
    const sockets: Socket[] = []
    const backend = await tcpBackend(t, socket => void sockets.push(socket))
    const binds = [{ address: testHost, port }]
    await fixture.listen({ binds, endpoints: [backend.endpoint], ...over })
    const client = dial(t, port)
    await once(client, 'connect')
    const opposite = await first(sockets)
    // The endpoint knows of it first: what it resets now never was a connection here.
    await until(
      'the relay has connected',
      () => fixture.stats().endpoints[0]?.active === 1,
    )
    return { ...fixture, client, opposite, port, backend }
  }

  t.test('a reset by the client is a reset at the backend, after the data', async t => {
    const { client, opposite, records } = await setUp(t)
    const seen = watch(opposite)
    client.write(randomBytes(oneWindow), () => reset(client))
    await until('the backend saw the end', () => seen.events.includes('close'))
    t.equal(seen.bytes, oneWindow, 'all that was sent before arrived')
    t.strictSame(seen.events, ['ECONNRESET', 'close'])
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'CD', detail: 'ECONNRESET' })
  })

  t.test('a reset by the backend is a reset at the client, after the data', async t => {
    const { client, opposite, records } = await setUp(t)
    const seen = watch(client)
    opposite.write(randomBytes(oneWindow), () => reset(opposite))
    await until('the client saw the end', () => seen.events.includes('close'))
    t.equal(seen.bytes, oneWindow)
    t.strictSame(seen.events, ['ECONNRESET', 'close'])
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'SD', detail: 'ECONNRESET' })
  })

  t.test('data before a reset reaches a reader that is slow', async t => {
    const { client, opposite, stats } = await setUp(t)
    const seen = watch(client)
    client.pause()
    // More than what user memory holds, less than what the kernel's buffers do.
    const bytes = 1_500_000
    opposite.write(randomBytes(bytes))
    await until('the relay has it all', () => stats().counters.bytesToClient === bytes)
    reset(opposite)
    await until('the backend is gone', () => opposite.destroyed)
    await new Promise(resolve => setTimeout(resolve, 300))
    client.resume()
    await until('the client saw the end', () => seen.events.includes('close'))
    t.equal(seen.bytes, bytes)
    t.strictSame(seen.events, ['ECONNRESET', 'close'])
  })

  for (const isClient of [true, false]) {
    const who = isClient ? 'client' : 'backend'
    t.test(
      `a ${who} that resets while the other side reads nothing is noticed`,
      async t => {
        const { client, opposite, records, stats } = await setUp(t, {
          limits: { halfCloseTimeout: 300 },
        })
        const [resetting, reader] = isClient ? [client, opposite] : [opposite, client]
        reader.pause()
        watch(reader)
        const counter = isClient ? 'bytesToBackend' : 'bytesToClient'
        const chunk = randomBytes(1 << 20)
        const more = (error?: Error | null): void => {
          if (!error) resetting.write(chunk, more)
        }
        more()
        let before = -1
        await until('nothing moves', async () => {
          const last = before
          before = stats().counters[counter]
          await new Promise(resolve => setTimeout(resolve, 200))
          return before > 0 && before === last
        })
        reset(resetting)
        await until('the connection is recorded', () => records.length === 1)
      },
    )
  }

  t.test(
    'an answer that is not taken when the relay ends is no end in order',
    async t => {
      const { client, opposite, relay, stats } = await setUp(t)
      const seen = watch(client)
      client.pause()
      client.end('the whole answer, please')
      opposite.resume()
      // More than the kernel's buffers hold.
      const bytes = 32 << 20
      opposite.end(randomBytes(bytes))
      let before = -1
      await until('nothing moves', async () => {
        const last = before
        before = stats().counters.bytesToClient
        await new Promise(resolve => setTimeout(resolve, 200))
        return before > 0 && before === last
      })
      t.match(await relay.drain(200), { reset: 1 })
      client.resume()
      await until('the client saw the end', () => seen.events.includes('close'))
      // What it was can't be told any more by a socket of Node's that has sent its own FIN.
      t.ok(seen.bytes < bytes)
    },
  )

  t.test('a slow reader gets all of an answer whose endpoint has ended', async t => {
    const { client, opposite, records, stats } = await setUp(t)
    const seen = watch(client)
    client.pause()
    client.end('the whole answer, please')
    opposite.resume()
    // So that some of it is held until the client goes on reading.
    const bytes = 32 << 20
    opposite.end(randomBytes(bytes))
    await until('some has come', () => stats().counters.bytesToClient > 0)
    await new Promise(resolve => setTimeout(resolve, 300))
    t.equal(records.length, 0, 'it is not over while something is held')
    client.resume()
    await until('the client saw the end', () => seen.events.includes('close'))
    t.equal(seen.bytes, bytes)
    t.strictSame(seen.events, ['end', 'close'])
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { cause: '--' })
  })

  t.test('a reset passes to a side that has already half-closed', async t => {
    const { client, opposite } = await setUp(t)
    const seen = watch(client)
    watch(opposite)
    client.end('last words')
    await once(opposite, 'end')
    reset(opposite)
    await until('the client saw the end', () => seen.events.includes('close'))
    t.strictSame(seen.events, ['ECONNRESET', 'close'])
  })

  t.test('a half-closed connection without traffic is ended', async t => {
    const { client, opposite, records } = await setUp(t, {
      limits: { halfCloseTimeout: 200 },
    })
    watch(opposite)
    const seen = watch(client)
    client.end()
    await until('the client saw the end', () => seen.events.includes('close'))
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'sD', detail: 'ETIMEDOUT' })
  })

  t.test('a half-closed connection with traffic goes on', async t => {
    const { client, opposite, records } = await setUp(t, {
      limits: { halfCloseTimeout: 300 },
    })
    const seen = watch(client)
    watch(opposite)
    client.end()
    for (let i = 0; i < 10; i += 1) {
      opposite.write('x')
      await new Promise(resolve => setTimeout(resolve, 100))
    }
    t.strictSame(seen.events, [], 'nothing ended in a second')
    opposite.end()
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { cause: '--', bytesToClient: 10 })
  })

  t.test('an idle limit of its route counts for a half-closed one, too', async t => {
    const { client, opposite, records } = await setUp(
      t,
      { limits: { halfCloseTimeout: 200 } },
      { ages: { idleMs: 1500 } },
    )
    watch(client)
    watch(opposite)
    client.end()
    await new Promise(resolve => setTimeout(resolve, 1000))
    t.equal(records.length, 0, 'it is open still')
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { detail: 'ETIMEDOUT' })
  })

  t.test('an idle limit ends a connection on which nothing moves', async t => {
    const { client, opposite, records } = await setUp(t, {
      limits: { tcpIdleTimeout: 200 },
    })
    const seen = watch(client)
    watch(opposite)
    await until('the client saw the end', () => seen.events.includes('close'))
    t.strictSame(seen.events, ['ECONNRESET', 'close'])
    await until('the connection is recorded', () => records.length === 1)
    t.match(records[0], { cause: 'cD' })
  })

  t.test('a connection whose endpoint was removed goes on', async t => {
    const { client, opposite, listen, port } = await setUp(t)
    const other = await tcpBackend(t, socket => void socket.end('other'))
    const binds = [{ address: testHost, port }]
    await listen({ binds, endpoints: [other.endpoint] })
    client.write('still here?')
    const [heard] = (await once(opposite, 'data')) as [Buffer]
    t.equal(heard.toString(), 'still here?')
    await listen({ binds, endpoints: [] })
    opposite.write('yes')
    const [answer] = (await once(client, 'data')) as [Buffer]
    t.equal(answer.toString(), 'yes')
  })

  t.test('who waits to be accepted as a drain begins is served', async t => {
    const { relay, listen, records } = relayFixture(t, make)
    const port = await freeTcpPort()
    const backend = await tcpBackend(t, socket => void socket.end('hello'))
    const binds = [{ address: testHost, port }]
    await listen({ binds, endpoints: [backend.endpoint] })
    const clients = Array.from({ length: 100 }, () => {
      const client = dial(t, port)
      client.on('end', () => client.end())
      return watch(client)
    })
    // By then they have been sent off, and the kernel has accepted them all.
    await new Promise(setImmediate)
    t.strictSame(await relay.drain(20_000), { reset: 0 })
    t.equal(records.length, clients.length)
    await until('all have ended', () => clients.every(({ events }) => events.length > 1))
    t.strictSame(
      new Set(clients.map(({ events }) => events.join())),
      new Set(['end,close']),
    )
  })

  t.test('draining waits for connections, and resets them when time is up', async t => {
    const { client, opposite, relay, records, port } = await setUp(t)
    const seen = watch(client)
    watch(opposite)
    const draining = relay.drain(300)
    // Those who come until it has taken effect are accepted.
    await until('nobody new is accepted', async () => {
      const late = dial(t, port)
      const refused = once(late, 'connect').then(
        () => false,
        (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
      )
      return (await refused) || !late.destroy()
    })
    opposite.write('x')
    await once(client, 'data')
    t.strictSame(seen.events, [], 'the open connection works')
    t.ok((await draining).reset > 0)
    t.ok(
      records.some(({ cause }) => cause === 'KD'),
      'what is over then has been told of',
    )
    await until('the client saw the end', () => seen.events.includes('close'))
    t.strictSame(seen.events, ['ECONNRESET', 'close'])
  })

  t.test('draining is over as soon as the last connection is', async t => {
    const { client, opposite, relay } = await setUp(t)
    watch(opposite)
    watch(client)
    const draining = relay.drain(60_000)
    client.end()
    opposite.end()
    t.strictSame(await draining, { reset: 0 })
  })
}
