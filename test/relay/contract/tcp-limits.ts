import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { readBulk, sendBulk } from '../../support/bulk.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import { carryingFds, endpoint, type ListenerSpec } from '../../support/relay-fixture.ts'
import {
  type RelayModule,
  type RelayProcess,
  relayProcess,
} from '../../support/relay-process.ts'
import { dial, echoBackend, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { echoUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const mib = 1 << 20
const at = (port: number) => [{ address: testHost, port }]

/** What the relay does when a reader stalls, descriptors run out, or it goes on for long. */
export const tcpLimitsContract = (t: Test, relay: RelayModule): void => {
  stallContract(t, relay)
  descriptorContract(t, relay)
  t.test('20 000 connections in turn leave nothing behind', t => manyInTurn(t, relay))
}

const stallContract = (t: Test, relay: RelayModule): void => {
  const bytes = 256 * mib
  const most = 32 * mib
  for (const direction of ['client->backend', 'backend->client'] as const) {
    t.test(`a reader that stalls on 256 MiB ${direction} costs no memory`, async t => {
      const { listen, usage } = await relayProcess(t, relay)
      const port = await freeTcpPort()
      const { client, opposite } = await connected(t, listen, port)
      const [from, to] =
        direction === 'client->backend' ? [client, opposite] : [opposite, client]
      const start = await usage()
      const reader = readBulk(to)
      to.pause()
      const sender = sendBulk(from, bytes)
      t.ok((await stalledAt(sender.taken)) < 64 * mib, 'the sender is held up')
      const first = await usage()
      t.ok(first.rss - start.rss < most, `${first.rss - start.rss} bytes more in RAM`)
      t.ok(first.held - start.held < most, `${first.held - start.held} bytes more held`)

      to.resume()
      await until('half of it came', () => reader.bytes() > bytes / 2)
      to.pause()
      t.ok((await stalledAt(sender.taken)) < bytes, 'it is held up once more')
      // Not the RAM: what has flown left garbage, which V8 clears away when it likes.
      const second = await usage()
      t.ok(second.held - start.held < most, `${second.held - start.held} bytes more held`)

      to.resume()
      await until('the reader saw the end', reader.ended)
      t.equal(reader.bytes(), bytes)
      t.equal(reader.firstWrong(), -1, 'every byte is right')
    })
  }
}

/** A client and the backend's socket that a relay has brought together. */
const connected = async (
  t: Test,
  listen: RelayProcess['listen'],
  port: number,
): Promise<{ client: Socket; opposite: Socket }> => {
  const accepted: Socket[] = []
  const backend = await tcpBackend(t, socket => void accepted.push(socket))
  await listen({ binds: at(port), endpoints: [backend.endpoint] })
  const client = dial(t, port)
  await until('the backend has it', () => accepted.length > 0)
  const [opposite] = accepted
  if (opposite === undefined) throw new Error('gone')
  return { client, opposite }
}

/** Where a figure stands still for 300 ms. */
const stalledAt = async (figure: () => number): Promise<number> => {
  for (let before = -1; before !== figure();) {
    before = figure()
    await sleep(300)
  }
  return figure()
}

const openFiles = 160
const wanted = 100

const descriptorContract = (t: Test, relay: RelayModule): void => {
  t.test('at the limit of descriptors clients wait, and are served later', async t => {
    const { listen, stats, alive } = await relayProcess(t, relay, { openFiles })
    const [port, latePort] = [await freeTcpPort(), await freeTcpPort()]
    const backend = await echoBackend(t)
    // Retries need descriptors too.
    const dead = endpoint(testHost, await freeTcpPort())
    const spec: ListenerSpec = {
      binds: at(port),
      endpoints: [backend.endpoint, dead],
    }
    const late: ListenerSpec = {
      id: 'late',
      binds: at(latePort),
      endpoints: [backend.endpoint],
    }
    await listen(spec)
    for (const round of ['first', 'second'] as const) {
      const clients = Array.from({ length: wanted }, () => echoClient(t, port))
      const answered = () => clients.filter(client => client.answers() > 0)
      await until('accepting is paused', async () => (await stats()).acceptPaused)
      await until('all are connected', () => clients.every(one => one.connected()))
      const served = await stalledAt(() => answered().length)
      t.ok(served > 20 && served < 64, `${served} were served in the ${round} round`)
      t.strictSame(failures(clients), [], 'the others wait')

      await listen(spec, late)
      const latecomer = echoClient(t, latePort)
      for (const client of answered()) client.ask()
      await until('who was served is served', () => sum(clients) === 2 * served)
      t.ok(latecomer.connected(), 'a port that opened meanwhile has a client')
      t.equal(latecomer.answers(), 0, 'who waits like the others')

      for (const client of answered().slice(0, 20)) client.close()
      await until('some who waited are served', () => answered().length >= served + 10)
      const everybody = [...clients, latecomer]
      await until('all are served', () => {
        for (const client of everybody) if (client.answers() > 0) client.close()
        return everybody.every(client => client.answers() > 0)
      })
      t.strictSame(failures(everybody), [])
      await listen(spec)
      await until('nothing is held', async () => carryingFds(await stats()) === 0)
      t.notOk((await stats()).acceptPaused)
    }
    t.ok(alive())
  })

  t.test(
    'at the limit of descriptors the oldest UDP flows make room, for TCP too',
    async t => {
      const { listen, stats } = await relayProcess(t, relay, { openFiles })
      const [tcpPort, udpPort] = [await freeTcpPort(), await freeUdpPort()]
      const { endpoint: echo } = await echoUdp(t)
      const backend = await namedBackend(t, 'served')
      await listen(
        { id: 'udp', protocol: 'UDP', binds: at(udpPort), endpoints: [echo] },
        { id: 'tcp', binds: at(tcpPort), endpoints: [backend.endpoint] },
      )
      const answers: string[] = []
      for (let i = 0; i < 150; i += 1) {
        const client = await udpClient(t, udpPort)
        answers.push(await client.ask(String(i)))
        await client.close()
      }
      t.strictSame(answers, Array.from(answers.keys(), String), 'each was answered')
      const { fds, acceptPaused } = await stats()
      t.ok(fds.used > 32 && fds.used < 128, `${fds.used} descriptors are held`)
      t.notOk(acceptPaused, 'datagrams do not stop TCP')
      const { text } = await readAll(dial(t, tcpPort))
      t.equal(text, 'served')
    },
  )
}

interface EchoClient {
  readonly connected: () => boolean
  /** How often the echo of what it asked came back. */
  readonly answers: () => number
  /** What went wrong with it; '' while nothing has. */
  readonly failure: () => string
  readonly ask: () => void
  readonly close: () => void
}

/** Connects, and asks for an echo at once. */
const echoClient = (t: Test, port: number): EchoClient => {
  let isConnected = false
  let answers = 0
  let failure = ''
  const socket = dial(t, port)
  socket.on('connect', () => (isConnected = true))
  socket.on('data', data => (answers += data.length))
  socket.on('end', () => (failure ||= 'ended'))
  socket.on('error', error => (failure ||= error.message))
  socket.write('x')
  return {
    connected: () => isConnected,
    answers: () => answers,
    failure: () => failure,
    ask: () => void socket.write('x'),
    close: () => socket.destroy(),
  }
}

const failures = (clients: readonly EchoClient[]): string[] =>
  clients.map(client => client.failure()).filter(failure => failure !== '')

const sum = (clients: readonly EchoClient[]): number =>
  clients.reduce((total, client) => total + client.answers(), 0)

const manyInTurn = async (t: Test, relay: RelayModule): Promise<void> => {
  const { listen, stats, usage } = await relayProcess(t, relay)
  const port = await freeTcpPort()
  const backend = await namedBackend(t, 'served')
  await listen({ binds: at(port), endpoints: [backend.endpoint] })
  const warmUp = 8000
  const half = 10_000
  const idle = async (): Promise<boolean> => carryingFds(await stats()) === 0
  const usageAfter = async (connections: number): ReturnType<typeof usage> => {
    t.equal(await inTurn(port, connections), 0, 'no client saw a fault')
    await until('all have ended', idle)
    return usage()
  }
  const before = await usageAfter(warmUp)
  const between = await usageAfter(half)
  const after = await usageAfter(half)
  t.equal(after.fds, before.fds, 'as many descriptors are open as before')
  t.equal(after.handles, before.handles, 'and as many handles and timers')
  const grown = after.held - before.held
  t.ok(grown < mib, `${grown} bytes more are held`)
  // A handle that stays is a kilobyte, in either half. The heap's own room grows by as much as
  // 17 MiB, but not twice.
  const inRam = Math.min(between.rss - before.rss, after.rss - between.rss)
  t.ok(inRam < 8 * mib, `${inRam} bytes more in RAM`)
  const [listener] = (await stats()).listeners
  t.match(listener?.counters, { accepted: warmUp + 2 * half, active: 0 })
  t.strictSame(listener?.counters.failed, {})
}

/** Opens `count` connections, 50 at a time, and answers how many were not served. */
const inTurn = async (port: number, count: number): Promise<number> => {
  let left = count
  let failed = 0
  const one = async (): Promise<void> => {
    while (left-- > 0) {
      const { text, error } = await readAll(connect(port, testHost))
      if (text !== 'served' || error !== '') failed += 1
    }
  }
  await Promise.all(Array.from({ length: 50 }, one))
  return failed
}

const readAll = async (socket: Socket): Promise<{ text: string; error: string }> => {
  let text = ''
  let error = ''
  socket.on('data', data => (text += data.toString()))
  socket.on('error', cause => (error = cause.message))
  socket.on('end', () => socket.end())
  socket.setTimeout(10_000, () => socket.destroy(new Error('no end came')))
  await new Promise(resolve => socket.on('close', resolve))
  return { text, error }
}
