import { randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { ask, dial, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const retry = { earlyClose: true, replay: 0 }

const closes = {
  'an end': (socket: Socket) => void socket.end(),
  'a reset': reset,
  'a late end': (socket: Socket) => void setTimeout(() => socket.end(), 20),
  'a late reset': (socket: Socket) => void setTimeout(reset, 20, socket),
} as const

/** A connection as one of the backends saw it. */
interface Seen {
  readonly backend: string
  bytes: Buffer
}

/** Whether a socket that has read its end, of an endpoint's port, has a timer of its own (proc(5)). */
const hasKeepAlive = async (port: number): Promise<boolean> => {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const table = await readFile('/proc/net/tcp', 'utf8')
  const rows = table.split('\n').map(line => line.trim().split(/\s+/))
  const closeWait = '08'
  return rows.some(
    ([, , to = '', state, , timer = '']) =>
      to.endsWith(remote) && state === closeWait && timer.startsWith('02'),
  )
}

/** Endpoints that accept, and end before their first byte. */
export const tcpEarlyCloseContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, first: readonly RelayEndpoint[], options = retry) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [2000] } })
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const listen = (endpoints: readonly RelayEndpoint[]) =>
      fixture.listen({ binds, endpoints, retry: options })
    await listen(first)
    return { ...fixture, port, listen }
  }

  for (const [kind, close] of Object.entries(closes)) {
    t.test(`one of three closes with ${kind}: no session fails`, async t => {
      const good = await Promise.all(['a', 'b'].map(name => namedBackend(t, name)))
      const bad = await tcpBackend(t, close)
      const all = [bad, ...good].map(one => one.endpoint)
      const { port, stats, records, relay } = await setUp(t, all)
      const answers: string[] = []
      for (let batch = 0; batch < 10; batch += 1) {
        const some = await Promise.all(Array.from({ length: 20 }, () => ask(port)))
        answers.push(...some.map(({ text, how }) => `${text} ${how}`))
      }
      t.strictSame([...new Set(answers)].toSorted(), ['a end', 'b end'])
      await until('all are recorded', () => records.length === 200)
      t.strictSame(stats().counters.failed, {})
      const early = records.flatMap(({ attempts }) =>
        // One that is reset before the relay has its turn never was a connection.
        attempts.filter(
          ({ result }) => result === 'closed early' || result === 'ECONNRESET',
        ),
      )
      t.ok(early.length > 0, 'it was tried')
      t.ok(early.length < 60, `${early.length} times, as it rests`)
      const blamed = stats().endpoints.find(({ key }) => key === bad.endpoint.key)
      t.equal(blamed?.failures, early.length)
      t.equal(blamed?.active, 0)
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    })
  }

  for (const how of ['an end', 'a late reset'] as const) {
    t.test(`when all close with ${how} the client sees that of the last`, async t => {
      const all = await Promise.all([1, 2, 3].map(() => tcpBackend(t, closes[how])))
      const { port, records, relay } = await setUp(
        t,
        all.map(one => one.endpoint),
      )
      const seen = how === 'an end' ? 'end' : 'ECONNRESET'
      t.strictSame(await ask(port), { text: '', how: seen })
      await until('it is recorded', () => records.length === 1)
      const attempts = records[0]?.attempts ?? []
      // One that is reset before the relay has its turn has refused, and may be dialled again.
      const connected = attempts.filter(({ result }) => result !== 'ECONNRESET')
      t.strictSame(
        connected.map(one => one.endpoint).toSorted(),
        all.map(one => one.endpoint.key).toSorted(),
        'each was left once',
      )
      const accepted = all.reduce((sum, one) => sum + one.accepted, 0)
      t.equal(accepted, attempts.length, 'and not dialled beside that')
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    })
  }

  t.test('each is tried once, however long they take', async t => {
    const end = (socket: Socket) => void setTimeout(() => socket.end(), 1100)
    const all = await Promise.all([1, 2, 3].map(() => tcpBackend(t, end)))
    const { port } = await setUp(
      t,
      all.map(one => one.endpoint),
    )
    t.match(await ask(port), { how: 'end' })
    t.strictSame(
      all.map(({ accepted }) => accepted),
      [1, 1, 1],
      'though the first rests no longer',
    )
  })

  t.test('what only reads gets it all, though it ended first', async t => {
    const heard: Buffer[] = []
    const sinks = await Promise.all(
      [1, 2].map(() =>
        tcpBackend(t, socket => void socket.on('data', one => heard.push(one)).end()),
      ),
    )
    const { port, records } = await setUp(
      t,
      sinks.map(one => one.endpoint),
    )
    const client = dial(t, port)
    await once(client.resume(), 'end')
    const said = randomBytes(100_000)
    client.end(said)
    await until('it is recorded', () => records.length === 1)
    t.ok(Buffer.concat(heard).equals(said))
    t.match(records[0], { cause: '--' })
  })

  t.test('when the others refuse the end is what the client sees', async t => {
    const heard: Buffer[] = []
    const sink = await tcpBackend(
      t,
      socket => void socket.on('data', one => heard.push(one)).end(),
    )
    const gone = endpoint(testHost, await freeTcpPort())
    const { port, records, relay, listen } = await setUp(t, [sink.endpoint])
    await listen([sink.endpoint, gone])
    const client = dial(t, port)
    await once(client.resume(), 'end')
    client.end('last words')
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: '--', endpoint: sink.endpoint.key })
    t.equal(Buffer.concat(heard).toString(), 'last words')
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('an end that was passed on is no service, and has a keep-alive', async t => {
    const sink = await tcpBackend(t, socket => void socket.end())
    const gone = endpoint(testHost, await freeTcpPort())
    const { port, stats, listen } = await setUp(t, [sink.endpoint])
    await listen([sink.endpoint, gone])
    const client = dial(t, port)
    await once(client.resume(), 'end')
    const isCoolingDown = () => stats().endpoints[0]?.coolingDown === true
    if (process.platform === 'linux')
      await until('it has one', () => hasKeepAlive(sink.endpoint.port))
    else await sleep(6000)
    t.equal(isCoolingDown(), false)
    const start = performance.now()
    dial(t, port)
    await until('it has failed again', () => isCoolingDown())
    await until('its rest is over', () => !isCoolingDown())
    const ms = performance.now() - start
    t.ok(ms > 1900, `twice as long as the first: ${ms} ms`)
  })

  t.test('a client that resets is not dialled for again', async t => {
    const bad = await tcpBackend(t, socket => {
      const end = () => socket.end()
      socket.once('data', () => void setTimeout(end, randomInt(4)))
    })
    const good = await tcpBackend(
      t,
      socket => void socket.on('end', () => socket.end()).resume(),
    )
    const all = [bad.endpoint, { ...good.endpoint, tier: 1 }]
    const options = { earlyClose: true, replay: 1000 }
    const { port, records, relay, listen } = await setUp(t, all, options)
    for (let i = 0; i < 60; i += 1) {
      // It rests no longer.
      await listen([])
      await listen(all)
      const client = dial(t, port)
      client.on('error', () => {})
      await once(client, 'connect')
      client.write('a question')
      await until('it has come', () => bad.accepted > i)
      reset(client)
    }
    await until('all are over', () => records.length === 60)
    t.equal(carryingFds(relay.stats()), 0)
    await until('none is left there', () => good.sockets.size === 0)
  })

  t.test('a client that asks nothing and ends is not passed around', async t => {
    const echo = await Promise.all(
      [1, 2].map(() =>
        tcpBackend(t, socket => void socket.on('end', () => socket.end()).resume()),
      ),
    )
    const { port, records } = await setUp(
      t,
      echo.map(one => one.endpoint),
    )
    const client = dial(t, port)
    client.end()
    await once(client.resume(), 'end')
    await until('it is recorded', () => records.length === 1)
    t.equal(
      echo.reduce((sum, { accepted }) => sum + accepted, 0),
      1,
    )
  })

  t.test('a client that leaves meanwhile leaves nothing behind', async t => {
    const bad = await tcpBackend(t, closes['a late end'])
    const gone = endpoint(testHost, await freeTcpPort())
    const { port, records, relay } = await setUp(t, [bad.endpoint, gone])
    for (let i = 0; i < 20; i += 1) {
      const client = dial(t, port)
      client.on('error', () => {})
      await once(client, 'connect')
      await sleep(randomInt(40))
      if (i % 2 === 0) reset(client)
      else client.destroy()
    }
    await until('all are recorded', () => records.length === 20)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('without the option the end is passed on', async t => {
    const bad = await tcpBackend(t, closes['an end'])
    const good = await namedBackend(t, 'good')
    const off = { earlyClose: false, replay: 0 }
    const { port } = await setUp(t, [bad.endpoint, good.endpoint], off)
    const answers = await Promise.all([1, 2, 3, 4].map(() => ask(port)))
    t.equal(answers.filter(({ text }) => text === '').length, 2)
  })

  t.test('no endpoint that was sent a byte is followed by another', async t => {
    await randomSessions(t, setUp, 0)
  })

  t.test('with replay what was said is said again, whole and once', async t => {
    await randomSessions(t, setUp, 3000)
  })
}

type SetUp = (
  t: Test,
  endpoints: readonly RelayEndpoint[],
  options: typeof retry,
) => Promise<{
  readonly port: number
  readonly listen: (endpoints: readonly RelayEndpoint[]) => Promise<void>
}>

/**
 * Clients that speak first, to endpoints of which two end early after some bytes: the first
 * bytes name the session.
 */
const randomSessions = async (t: Test, setUp: SetUp, replay: number): Promise<void> => {
  const seen: Seen[] = []
  const watch = (backend: string, after: (one: Seen, socket: Socket) => void) =>
    tcpBackend(t, socket => {
      const one: Seen = { backend, bytes: Buffer.alloc(0) }
      seen.push(one)
      socket.on('data', data => {
        one.bytes = Buffer.concat([one.bytes, data])
        after(one, socket)
      })
    })
  const early = await Promise.all(
    [closes['an end'], closes['a reset']].map((close, i) =>
      watch(`early ${i}`, (_, socket) => close(socket)),
    ),
  )
  const good = await watch('good', ({ bytes }, socket) => {
    if (bytes.length >= 8 && bytes.length === bytes.readUInt32LE(4)) socket.end('served')
  })
  const all = [...early, good].map(one => one.endpoint)
  const { port, listen } = await setUp(t, all, { earlyClose: true, replay })
  const sessions = Array.from({ length: 80 }, (_, id) => {
    const size = [8, replay - 1, replay, replay + 1, randomInt(8, 9000)][id % 5] ?? 8
    const bytes = randomBytes(Math.max(8, size))
    bytes.writeUInt32LE(id, 0)
    bytes.writeUInt32LE(bytes.length, 4)
    return { id, bytes }
  })
  const answers = new Map<number, string>()
  for (const { id, bytes } of sessions) {
    // Endpoints that closed early rest no longer: any may be the first.
    await listen([])
    await listen(all)
    const before = seen.length
    answers.set(id, await say(t, port, bytes))
    const spoken = seen.slice(before, -1).filter(one => one.bytes.length > 0)
    const most = Math.max(0, ...spoken.map(one => one.bytes.length))
    t.ok(most <= replay, `who was sent more than ${replay} bytes is the last`)
  }
  for (const { id, bytes } of sessions) {
    const mine = seen.filter(
      one => one.bytes.length >= 4 && one.bytes.readUInt32LE(0) === id,
    )
    if (replay === 0) t.ok(mine.length <= 1, `${id} was said once`)
    const served = mine.filter(({ backend }) => backend === 'good')
    t.ok(served.length <= 1)
    for (const one of served) t.ok(one.bytes.equals(bytes), `${id} came whole`)
    if (bytes.length <= replay)
      t.equal(answers.get(id), 'served', `${bytes.length} bytes`)
    if (answers.get(id) === 'served') t.equal(served.length, 1)
  }
}

const say = async (t: Test, port: number, bytes: Buffer): Promise<string> => {
  const socket = dial(t, port)
  let text = ''
  socket.on('data', data => (text += data.toString()))
  socket.on('error', () => {})
  const over = new Promise<void>(resolve => {
    socket.on('end', resolve).on('close', resolve)
  })
  const cut = randomInt(bytes.length)
  socket.write(bytes.subarray(0, cut))
  if (cut % 2 === 0) await sleep(1)
  socket.write(bytes.subarray(cut))
  await over
  socket.destroy()
  return text
}
