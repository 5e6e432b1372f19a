import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { HandedOver, RelayEndpoint, TakenOver } from '../../../src/relay/relay.ts'
import { readBulk, sendBulk } from '../../support/bulk.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import {
  makeLinuxRelayOfTwo,
  makeLinuxRelayWith,
  mortalWorker,
} from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  type ListenerSpec,
  listenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { dial, echoBackend, namedEcho, tcpBackend } from '../../support/tcp-backend.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { socketFolder } from '../../support/unix-socket.ts'
import { until } from '../../support/until.ts'
import { allConnections } from '../contract/tcp-connections.ts'
import { MSG_OOB, urgentClient } from '../../support/urgent-client.ts'

const mib = 1 << 20

interface Moved {
  readonly handed: HandedOver
  readonly taken: TakenOver | undefined
  readonly refused: string
}

const makeOf = (workers: number): MakeRelay => makeLinuxRelayWith({ workers })

/** A relay at a port, and how the next one takes its place. */
const setUp = async (
  t: Test,
  endpoints: readonly RelayEndpoint[],
  spec: ListenerSpec = {},
  request: RelayRequest = {},
) => {
  const port = await freeTcpPort()
  const binds = spec.binds ?? [{ address: testHost, port }]
  const before = relayFixture(t, makeLinuxRelayOfTwo, request)
  await before.relay.apply([listenerSpec({ endpoints, ...spec, binds })])
  const move = async (
    over: ListenerSpec = {},
    make: MakeRelay = makeLinuxRelayOfTwo,
    afterRequest: RelayRequest = request,
  ): Promise<RelayFixture & Moved> => {
    const after = relayFixture(t, make, afterRequest)
    const place = await before.relay.handOver()
    const handing = before.relay.handedOver()
    const { refused } = await after.relay.takeOver(place)
    if (refused === '')
      await after.relay.apply([listenerSpec({ endpoints, ...spec, binds, ...over })])
    const taken = await after.relay.finishTakeOver()
    return { ...after, handed: await handing, taken, refused }
  }
  const open = async (): Promise<Socket> => {
    const socket = dial(t, port)
    socket.on('error', () => {})
    await once(socket, 'connect')
    return socket
  }
  return { port, before, move, open }
}

const textOf = (socket: Socket) => {
  const seen = { text: '', how: 'open' }
  socket.on('data', (data: Buffer) => (seen.text += data.toString()))
  socket.on('end', () => (seen.how = 'ended'))
  socket.on('error', (error: NodeJS.ErrnoException) => (seen.how = String(error.code)))
  socket.on('close', () => (seen.how = seen.how === 'open' ? 'closed' : seen.how))
  return seen
}

/** A backend, and the sockets that it has got with what they have heard. */
const listener = async (t: Test) => {
  const got: { socket: Socket; seen: ReturnType<typeof textOf> }[] = []
  const backend = await tcpBackend(
    t,
    socket => void got.push({ socket, seen: textOf(socket) }),
  )
  const first = async () => {
    await until('it is dialled', () => got.length > 0)
    const [one] = got
    if (one === undefined) throw new Error('there is one')
    return one
  }
  return { endpoint: backend.endpoint, got, first }
}

const states = async (t: Test): Promise<void> => {
  t.test('half-closed by its client', async t => {
    const { endpoint, first } = await listener(t)
    const { open, move, before } = await setUp(t, [endpoint])
    const client = await open()
    const heard = textOf(client)
    client.end('all')
    const { socket, seen } = await first()
    await until('the backend has the end', () => seen.how === 'ended')
    const after = await move()
    t.match(after.handed, { connections: 1, staying: {} })
    await before.relay.drain(0)
    socket.write('answer ')
    await until('it comes', () => heard.text === 'answer ')
    socket.end('end')
    await until('it ends', () => heard.how === 'ended')
    t.equal(heard.text, 'answer end')
    await until('it is recorded', () => after.records.length === 1)
    t.match(after.records, [{ cause: '--', bytesToBackend: 3, bytesToClient: 10 }])
    t.strictSame([...before.records, ...before.faults, ...after.faults], [])
  })

  t.test('half-closed by its endpoint', async t => {
    const { endpoint, first } = await listener(t)
    const { open, move, before } = await setUp(t, [endpoint])
    const client = await open()
    const heard = textOf(client)
    const { socket, seen } = await first()
    socket.end('all')
    await until('the client has the end', () => heard.how === 'ended')
    const after = await move()
    await before.relay.drain(0)
    client.write('more ')
    await until('it comes', () => seen.text === 'more ')
    client.end('end')
    await until('it ends', () => seen.how === 'ended')
    t.equal(seen.text, 'more end')
    await until('it is recorded', () => after.records.length === 1)
    t.match(after.records, [{ cause: '--' }])
  })

  for (const connectionBuffer of [65_536, 4 * mib])
    t.test(`slow readers, with a buffer of ${connectionBuffer}`, async t => {
      const size = 24 * mib
      const backend = await tcpBackend(t, socket => {
        sendBulk(socket, size)
        socket.resume()
      })
      const limits = { connectionBuffer }
      const { port, before, move } = await setUp(t, [backend.endpoint], {}, { limits })
      const clients = Array.from({ length: 6 }, () => dial(t, port))
      await Promise.all(clients.map(client => once(client, 'connect')))
      const held = (): number =>
        (before.relay.stats().workers ?? []).reduce((sum, one) => sum + one.heldBytes, 0)
      await until('something is held', () => held() > 0)
      await sleep(100)
      const after = await move()
      t.match(after.handed, { connections: 6, staying: {} })
      await before.relay.drain(0)
      const readers = clients.map(client => readBulk(client))
      for (const client of clients) client.end()
      await until('all has come', () => readers.every(one => one.ended()))
      for (const { bytes, firstWrong } of readers) {
        t.equal(bytes(), size)
        t.equal(firstWrong(), -1)
      }
      await until('all are recorded', () => after.records.length === 6)
      const of = after.relay.stats()
      t.strictSame(
        (of.workers ?? []).map(one => one.heldBytes),
        [0, 0],
      )
      t.strictSame([...before.faults, ...after.faults], [])
    })

  for (const proxyProtocol of ['v1', 'v2'] as const)
    t.test(`an endpoint that was told the client by PROXY ${proxyProtocol}`, async t => {
      const { endpoint, first } = await listener(t)
      const { open, move, before } = await setUp(t, [endpoint], { proxyProtocol })
      const client = await open()
      const { seen } = await first()
      await sleep(50)
      const after = await move()
      await before.relay.drain(0)
      client.write('word')
      await until('it comes', () => seen.text.endsWith('word'))
      const sign = proxyProtocol === 'v1' ? 'PROXY TCP4' : '\r\n\r\n\0\r\nQUIT'
      t.equal(seen.text.split(sign).length, 2, 'once')
      t.ok(seen.text.startsWith(sign))
      t.strictSame(after.faults, [])
    })

  for (const way of ['ends early', 'does not answer'])
    t.test(`its endpoint ${way} after that: the next one gets what was sent`, async t => {
      const early = await listener(t)
      const good = await namedEcho(t, 'good ')
      const retry = { earlyClose: true, replay: 1024, answerMs: 700 }
      const endpoints = [early.endpoint, { ...good.endpoint, tier: 1 }]
      const { open, move, before } = await setUp(t, endpoints, { retry })
      const client = await open()
      const heard = textOf(client)
      client.write('question')
      const { socket, seen } = await early.first()
      await until('it has it', () => seen.text === 'question')
      const after = await move()
      t.match(after.handed, { connections: 1 })
      await before.relay.drain(0)
      if (way === 'ends early') socket.end()
      await until('another answers', () => heard.text === 'good question')
      client.end()
      await until('it is recorded', () => after.records.length === 1)
      t.match(after.records, [{ endpoint: good.endpoint.key, cause: '--' }])
      t.strictSame(after.faults, [])
    })

  t.test('places at an endpoint, and limits, go on to count', async t => {
    const backend = await namedEcho(t, 'a')
    const capacity = { maxConnections: 1, queueMs: 30_000, mostQueued: 10 }
    const { open, move, before } = await setUp(t, [backend.endpoint], { capacity })
    const first = await open()
    await once(first, 'data')
    const after = await move()
    await before.relay.drain(0)
    const second = await open()
    const heard = textOf(second)
    await until('it waits', () => after.stats().counters.queued === 1)
    t.equal(heard.text, '')
    first.end()
    await until('it has its turn', () => heard.text === 'a')

    const limits = { routeConnections: 2 }
    const limited = await setUp(t, [backend.endpoint], { limits })
    const two = [await limited.open(), await limited.open()]
    await Promise.all(two.map(one => once(one, 'data')))
    const next = await limited.move()
    await limited.before.relay.drain(0)
    // It may be reset before it is told that it is connected.
    const third = textOf(dial(t, limited.port))
    await until('it is too many', () => third.how !== 'open')
    t.equal(third.text, '')
    two[0]?.end()
    await until('one has ended', () => next.stats().counters.active === 1)
    t.equal(String(await once(await limited.open(), 'data')), 'a')
  })

  for (const ages of [{ idleMs: 4000 }, { lifetimeMs: 4000 }])
    t.test(`its time goes on: ${Object.keys(ages).join()}`, async t => {
      const backend = await namedEcho(t, 'a')
      const { open, move, before } = await setUp(t, [backend.endpoint], { ages })
      const ends: string[] = []
      const begin = async (name: string): Promise<void> => {
        const socket = await open()
        socket.on('close', () => ends.push(name))
        await once(socket, 'data')
      }
      await begin('old')
      await sleep(1000)
      const after = await move()
      t.match(after.handed, { connections: 1 })
      await before.relay.drain(0)
      await begin('new')
      await until('both have ended', () => ends.length === 2)
      t.strictSame(ends, ['old', 'new'])
      await until('both are recorded', () => after.records.length === 2)
      t.strictSame(before.records, [])
    })

  t.test('an endpoint that the new one does not list', async t => {
    const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
    const { open, move, before } = await setUp(t, [a.endpoint])
    const client = await open()
    const heard = textOf(client)
    await until('it is served', () => heard.text === 'a')
    const after = await move({ endpoints: [b.endpoint] })
    await before.relay.drain(0)
    client.write('x')
    await until('it goes on', () => heard.text === 'ax')
    t.equal(String(await once(await open(), 'data')), 'b')
    client.end()
    await until('it is recorded', () => after.records.length === 1)
    t.match(after.records, [{ endpoint: a.endpoint.key, cause: '--' }])
    t.strictSame(after.faults, [])
  })

  t.test('a listener that the new one does not have: its connections stay', async t => {
    const backend = await namedEcho(t, 'a')
    const { open, move, before } = await setUp(t, [backend.endpoint])
    const client = await open()
    const heard = textOf(client)
    await until('it is served', () => heard.text === 'a')
    const after = await move({ id: 'other', binds: [] })
    t.match(after.handed, {
      connections: 0,
      staying: { 'not served by the new process': 1 },
    })
    client.write('x')
    await until('it goes on', () => heard.text === 'ax')
    const drained = before.relay.drain(20_000)
    client.end()
    t.match(await drained, { reset: 0 })
    await until('it is recorded', () => before.records.length === 1)
    t.strictSame(after.records, [])
  })

  t.test('unix sockets on both sides', async t => {
    const folder = socketFolder(t)
    const path = join(folder, 'relay.sock')
    const server = createServer(socket => void socket.pipe(socket))
    server.listen(join(folder, 'backend.sock'))
    await once(server, 'listening')
    t.teardown(() => server.close())
    const address = `unix:${join(folder, 'backend.sock')}`
    const to = { key: address, address, port: 0 }
    const { before, move } = await setUp(t, [to], {
      binds: [{ address: `unix:${path}`, port: 0 }],
    })
    const open = () => {
      const socket = connect(path)
      t.teardown(() => socket.destroy())
      return { socket, heard: textOf(socket) }
    }
    const { socket, heard } = open()
    socket.write('before ')
    await until('it has an echo', () => heard.text === 'before ')
    const after = await move()
    t.match(after.handed, { connections: 1, staying: {} })
    await before.relay.drain(0)
    t.ok(existsSync(path), 'the file stays')
    socket.write('after')
    await until('it has one more', () => heard.text === 'before after')
    const other = open()
    other.socket.write('new')
    await until('a new one, too', () => other.heard.text === 'new')
    await after.relay.drain(0)
    t.notOk(existsSync(path))
    t.strictSame([...before.faults, ...after.faults], [])
  })

  t.test('what comes around urgent data', async t => {
    const { endpoint, first } = await listener(t)
    const { port, move, before } = await setUp(t, [endpoint])
    const send = urgentClient(t, port)
    const around = (): void => {
      send('before', 0)
      send('!', MSG_OOB)
      send('after', 0)
    }
    around()
    const { seen } = await first()
    // Of the second round some is read by the old one and some by the new one.
    around()
    const after = await move()
    t.match(after.handed, { connections: 1, staying: {} })
    await before.relay.drain(0)
    around()
    const inBand = (): string => seen.text.replaceAll('!', '')
    await until('all came', () => inBand() === 'beforeafter'.repeat(3))
    t.equal(seen.how, 'open')
    t.strictSame([...before.faults, ...after.faults], [])
  })

  t.test('who is in a queue is served, and counted by the new one', async t => {
    const backend = await namedEcho(t, 'a')
    const capacity = { maxConnections: 1, queueMs: 30_000, mostQueued: 10 }
    const { open, move, before } = await setUp(t, [backend.endpoint], { capacity })
    const first = await open()
    await once(first, 'data')
    const second = await open()
    const waited = textOf(second)
    await until('it waits', () => before.stats().counters.queued === 1)
    const after = await move()
    // Its place is free for the old one as soon as the first is the new one's.
    t.match(after.handed, { connections: 2, staying: {} })
    await before.relay.drain(0)
    await until('it is served', () => waited.text === 'a')
    const third = textOf(await open())
    await until('the next one waits', () => after.stats().counters.queued === 1)
    first.end()
    await until('one has ended', () => after.records.length === 1)
    t.equal(third.text, '', 'there is one too many yet')
    second.end()
    await until('it has its turn', () => third.text === 'a')
    t.strictSame([...before.faults, ...after.faults], [])
  })

  t.test(
    'one that an operator closes meanwhile is closed, by the one that has it',
    async t => {
      const backend = await namedEcho(t, 'a')
      const { open, move, before } = await setUp(t, [backend.endpoint])
      const clients = await Promise.all(Array.from({ length: 40 }, open))
      const all = clients.map(textOf)
      await until('they are served', () => all.every(({ text }) => text === 'a'))
      const ids = (await allConnections(before.relay)).map(({ id }) => id)
      const moving = move()
      let closed = 0
      const now = { isOver: false }
      const closing = (async () => {
        while (!now.isOver) {
          closed += (await before.relay.query('close-connections', ids.splice(0, 1)))
            .length
          await sleep(1)
        }
      })()
      const after = await moving
      now.isOver = true
      await closing
      await until(
        'they are cut',
        () => all.filter(({ how }) => how !== 'open').length === closed,
      )
      t.equal(after.handed.connections + closed, 40)
      for (const one of clients) one.write('x')
      const rest = all.filter(({ how }) => how === 'open')
      await until('the others go on', () => rest.every(({ text }) => text === 'ax'))
      await before.relay.drain(0)
      t.strictSame([...before.faults, ...after.faults], [])
    },
  )

  t.test('who is being dialled for stays, and is named', async t => {
    const silent = await silentBackend(t)
    const backend = await namedEcho(t, 'a')
    const { open, move, before } = await setUp(t, [silent])
    const waits = await open()
    const seen = textOf(waits)
    await until('it is dialled for', () => before.stats().counters.dialAttempts === 1)
    const after = await move({ endpoints: [backend.endpoint] })
    t.match(after.handed, { connections: 0, staying: { 'not connected yet': 1 } })
    t.strictSame(after.taken?.staying, { 'not connected yet': 1 })
    t.equal(String(await once(await open(), 'data')), 'a')
    t.equal(seen.how, 'open')
    t.match(await before.relay.drain(0), { reset: 1 })
    await until('it is reset', () => seen.how === 'ECONNRESET')
    t.strictSame([...before.faults, ...after.faults], [])
  })

  t.test('the access log has one line of each', async t => {
    const backend = await echoBackend(t)
    const accessLog = { to: 'stdout', format: 'tcplog' } as const
    const { open, move, before } = await setUp(t, [backend.endpoint], {
      accessLog: accessLog as never,
    })
    const clients = [await open(), await open(), await open()]
    for (const client of clients) client.write('x')
    await Promise.all(clients.map(client => once(client, 'data')))
    const after = await move()
    await before.relay.drain(0)
    for (const client of clients) client.end()
    const lines = (of: RelayFixture): number =>
      of.accessBatches.reduce((sum, batch) => sum + batch.lines + batch.lost, 0)
    await until('all are written', () => lines(after) === 3)
    t.equal(lines(before), 0)
  })
  t.end()
}

const shortages = async (t: Test): Promise<void> => {
  t.test('fewer workers: refused; more: taken over', async t => {
    const backend = await namedEcho(t, 'a')
    const { open, move } = await setUp(t, [backend.endpoint])
    const client = await open()
    const heard = textOf(client)
    await until('it is served', () => heard.text === 'a')
    const fewer = await move({}, makeOf(1))
    t.match(fewer.refused, /it has 1 workers, and this one has 2/)
    t.match(fewer.handed, { refused: fewer.refused, connections: 0 })
    client.write('x')
    await until('it goes on', () => heard.text === 'ax')
    const other = await setUp(t, [backend.endpoint])
    const clients = await Promise.all(Array.from({ length: 8 }, other.open))
    const all = clients.map(textOf)
    await until('they are served', () => all.every(({ text }) => text === 'a'))
    const more = await other.move({}, makeOf(3))
    t.match(more.handed, { connections: 8, staying: {} })
    await other.before.relay.drain(0)
    for (const one of clients) one.write('x')
    await until('all go on', () => all.every(({ text }) => text === 'ax'))
    const later = await Promise.all(Array.from({ length: 8 }, other.open))
    t.equal((await Promise.all(later.map(one => once(one, 'data')))).join(''), 'aaaaaaaa')
    t.strictSame(more.faults, [])
  })

  t.test('too few descriptors for listening sockets, and for connections', async t => {
    const backend = await namedEcho(t, 'a')
    const binds = await Promise.all(
      Array.from({ length: 3 }, async () => ({
        address: testHost,
        port: await freeTcpPort(),
      })),
    )
    const first = await setUp(t, [backend.endpoint], { binds })
    // Four are left to it, and there are six.
    const least = { openFileLimit: 5, limits: { reservedFds: 4 } }
    const none = await first.move({}, makeLinuxRelayOfTwo, least)
    t.match(
      none.refused,
      /it may have 4 file descriptors, and the listening sockets alone are 6/,
    )
    t.match(none.handed, { refused: none.refused })
    t.equal(none.taken, undefined)
    const { open, move, before } = await setUp(t, [backend.endpoint])
    const clients = await Promise.all(Array.from({ length: 200 }, open))
    const all = clients.map(textOf)
    await until('they are served', () => all.every(({ text }) => text === 'a'))
    const after = await move({}, makeLinuxRelayOfTwo, {
      openFileLimit: 264,
      limits: { reservedFds: 64 },
    })
    const { handed } = after
    t.strictSame(Object.keys(handed.staying), [
      'the new process has too few file descriptors',
    ])
    const stays = Object.values(handed.staying)[0] ?? 0
    t.equal(stays + handed.connections, 200)
    t.equal(after.stats().counters.active, handed.connections)
    t.equal(after.taken?.connections, handed.connections)
    for (const one of clients) one.write('x')
    await until('all go on', () => all.every(({ text }) => text === 'ax'))
    const drained = before.relay.drain(20_000)
    for (const one of clients) one.end()
    t.match(await drained, { reset: 0 })
    await until('all have ended', () => after.stats().counters.active === 0)
    t.strictSame([...before.faults, ...after.faults], [])
  })

  for (const side of ['old', 'new'])
    t.test(`a worker of the ${side} one dies right after it`, async t => {
      const backend = await namedEcho(t, 'a')
      const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
      const mortal = makeLinuxRelayWith({ workers: 2, workerProgram: program })
      const port = await freeTcpPort()
      const spec = listenerSpec({
        binds: [{ address: testHost, port }],
        endpoints: [backend.endpoint],
      })
      const before = relayFixture(t, side === 'old' ? mortal : makeLinuxRelayOfTwo)
      await before.relay.apply([spec])
      const clients = Array.from({ length: 40 }, () => dial(t, port))
      const all = clients.map(textOf)
      await until('they are served', () => all.every(({ text }) => text === 'a'))
      const after = relayFixture(t, side === 'new' ? mortal : makeLinuxRelayOfTwo)
      const place = await before.relay.handOver()
      const over = before.relay.handedOver()
      await after.relay.takeOver(place)
      await after.relay.apply([spec])
      const [taken] = await Promise.all([after.relay.finishTakeOver(), tell(1)])
      const handed = await over
      const told = side === 'old' ? before.faults : after.faults
      await until('its death is told', () => told.length > 0)
      await before.relay.drain(0)
      // Each of them is with the new one, or cut: none is forgotten.
      for (const one of clients) if (!one.destroyed) one.write('x')
      await until('each goes on or is cut', () =>
        all.every(({ text, how }) => text === 'ax' || how !== 'open'),
      )
      t.ok(
        all.every(({ how }) => how === 'open' || how !== 'ended'),
        'by a reset',
      )
      t.comment(
        JSON.stringify([handed, taken, all.filter(({ how }) => how !== 'open').length]),
      )
      await until('new ones are served', async () => {
        const heard = textOf(dial(t, port))
        await until('it is over', () => heard.text === 'a' || heard.how !== 'open')
        return heard.text === 'a'
      })
    })

  t.test('ten in a row, of any number of connections', async t => {
    const backend = await echoBackend(t)
    const port = await freeTcpPort()
    const spec = listenerSpec({
      binds: [{ address: testHost, port }],
      endpoints: [backend.endpoint],
    })
    let now = relayFixture(t, makeLinuxRelayOfTwo)
    await now.relay.apply([spec])
    const clients: { socket: Socket; seen: ReturnType<typeof textOf> }[] = []
    for (let turn = 1; turn <= 10; turn += 1) {
      const count = Math.floor(Math.random() * 120)
      for (let i = 0; i < count; i += 1) {
        const socket = dial(t, port)
        clients.push({ socket, seen: textOf(socket) })
      }
      for (const { socket } of clients) socket.write(`${turn} `)
      const next = relayFixture(t, makeLinuxRelayOfTwo)
      const place = await now.relay.handOver()
      const over = now.relay.handedOver()
      await next.relay.takeOver(place)
      await next.relay.apply([spec])
      await next.relay.finishTakeOver()
      t.strictSame((await over).staying, {})
      t.match(await now.relay.drain(0), { reset: 0 })
      const ending = `${turn} `
      await until('all have an echo', () =>
        clients.every(({ seen }) => seen.text.endsWith(ending)),
      )
      t.equal(next.stats().counters.active, clients.length)
      t.equal(next.stats().counters.accepted, clients.length)
      t.strictSame([...now.faults, ...next.faults], [])
      now = next
    }
    t.ok(clients.every(({ seen }) => seen.how === 'open'))
  })
  t.end()
}

const skip = linuxRelaySkip()
t.test('connections in all states go to the next relay', { skip }, states)
t.test('the next relay has more or less than this one', { skip }, shortages)
