// A process of its own: memory is measured.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { openFileLimit } from '../../../src/relay/fd-limit.ts'
import { readBulk, sendBulk } from '../../support/bulk.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelay, makeLinuxRelayWith } from '../../support/linux-relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import { carryingFds, relayFixture } from '../../support/relay-fixture.ts'
import { relayProcess } from '../../support/relay-process.ts'
import { dial, echoBackend, namedBackend } from '../../support/tcp-backend.ts'
import { echoUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { typescript } from '../../support/typescript.ts'
import { until } from '../../support/until.ts'
import { urgentContract } from '../contract/tcp-urgent.ts'

const mib = 1 << 20
const at = (port: number) => [{ address: testHost, port }]
/** 100 000 take a minute: USHER_TEST_CONNECTIONS=100000 for those who have it. */
const shortConnections = Number(process.env['USHER_TEST_CONNECTIONS'] ?? 20_000)
const warmUp = 10_000
const linuxRelay = {
  file: new URL('../../support/linux-relay.ts', import.meta.url),
  exported: 'makeLinuxRelay',
}

/** Opens `count` connections, 100 at a time; what was wrong with any of them. */
const shortOnes = async (port: number, count: number): Promise<string[]> => {
  const faults: string[] = []
  let left = count
  const visit = (): Promise<void> =>
    new Promise(resolve => {
      let heard = 0
      const socket = connect(port, testHost)
      socket.on('data', data => (heard += data.length))
      socket.on('error', error => faults.push(error.message))
      socket.on('close', () => {
        if (heard !== 'served'.length) faults.push(`${heard} bytes`)
        resolve()
      })
    })
  const visitor = async (): Promise<void> => {
    while (left-- > 0) await visit()
  }
  await Promise.all(Array.from({ length: 100 }, visitor))
  return faults
}

t.test('under load', { skip: linuxRelaySkip() }, async t => {
  t.test(`${shortConnections} short connections leave nothing behind`, async t => {
    const { listen, stats, usage } = await relayProcess(t, linuxRelay)
    const port = await freeTcpPort()
    const backend = await namedBackend(t, 'served')
    await listen({ binds: at(port), endpoints: [backend.endpoint] })
    const idle = async (): Promise<boolean> => carryingFds(await stats()) === 0
    t.strictSame(await shortOnes(port, warmUp), [])
    await until('the first have ended', idle)
    const before = await usage()
    t.strictSame((await shortOnes(port, shortConnections - warmUp)).slice(0, 5), [])
    await until('all have ended', idle)
    const after = await usage()
    t.equal(after.fds, before.fds, 'as many descriptors are open as before')
    t.ok(after.rss - before.rss < 16 * mib, `${after.rss - before.rss} bytes more in RAM`)
    const [listener] = (await stats()).listeners
    t.match(listener?.counters, { accepted: shortConnections, active: 0 })
    t.strictSame(listener?.counters.failed, {})
  })

  const mostIdleBytes = 1200
  // Here there are a client's and a backend's socket for each.
  const idleOnes = Math.min(10_000, Math.floor((openFileLimit() - 1000) / 200) * 100)
  // What V8 takes for itself meanwhile is not theirs: 2 MB with Node 20, 12 from 24 on.
  const firstOnes = Math.min(2000, idleOnes / 2)
  t.test(`${idleOnes} idle connections cost little and live`, async t => {
    const { listen, stats, usage } = await relayProcess(t, linuxRelay)
    const port = await freeTcpPort()
    const backend = await echoBackend(t)
    await listen({ binds: at(port), endpoints: [backend.endpoint] })
    const before = await usage()
    const clients: Socket[] = []
    let echoes = 0
    const dialUpTo = async (count: number): Promise<void> => {
      while (clients.length < count) {
        // No more at once than the backend's queue holds.
        for (let i = 0; i < 100; i += 1) {
          const client = dial(t, port)
          client.on('data', () => (echoes += 1))
          client.write('x')
          clients.push(client)
        }
        await until('all have an echo', () => echoes === clients.length)
      }
    }
    await dialUpTo(firstOnes)
    const warm = await usage()
    await dialUpTo(idleOnes)
    const after = await usage()
    const each = (after.rss - warm.rss) / (idleOnes - firstOnes)
    t.ok(each < mostIdleBytes, `${Math.round(each)} bytes more in RAM for each`)
    for (const client of clients) client.write('y')
    await until('all have another', () => echoes === 2 * clients.length)
    for (const client of clients) client.end()
    await until('all have ended', async () => carryingFds(await stats()) === 0)
    t.equal((await usage()).fds, before.fds)
  })

  t.test('collections of garbage in every turn harm nothing', async t => {
    const file = new URL('../../support/gc-worker.ts', import.meta.url)
    const make = makeLinuxRelayWith({ workerProgram: { file, execArgv: [typescript] } })
    const { relay, faults } = relayFixture(t, make)
    const [port, udpPort] = [await freeTcpPort(), await freeUdpPort()]
    const backend = await echoBackend(t)
    const { endpoint } = await echoUdp(t)
    await relay.apply([
      listener('tcp', 'TCP', port, backend.endpoint),
      listener('udp', 'UDP', udpPort, endpoint),
    ])
    await Promise.all([
      bulkEcho(t, port, 64 * mib),
      bulkEcho(t, port, 8 * mib),
      smallEchoes(t, port, 500),
      datagrams(t, udpPort, 500),
    ])
    t.strictSame(faults, [])
  })

  urgentContract(t, makeLinuxRelay)
})

const listener = (
  id: string,
  protocol: 'TCP' | 'UDP',
  port: number,
  endpoint: { key: string; address: string; port: number },
) => ({
  id,
  name: `test/${id}:port`,
  protocol,
  fronts: [
    {
      binds: at(port),
      endpoints: 'all' as const,
      endpointsFromNode: undefined,
      allowedClients: undefined,
      closedReason: '',
    },
  ],
  endpoints: [endpoint],
  affinityMs: 0,
})

const bulkEcho = async (t: Test, port: number, bytes: number): Promise<void> => {
  const client = dial(t, port)
  const reader = readBulk(client)
  sendBulk(client, bytes)
  await until('all came back', reader.ended, 60_000)
  t.equal(reader.bytes(), bytes)
  t.equal(reader.firstWrong(), -1, 'every byte is right')
}

const smallEchoes = async (t: Test, port: number, count: number): Promise<void> => {
  const client = dial(t, port)
  let wrong = 0
  for (let i = 0; i < count; i += 1) {
    client.write(`message ${i}`)
    const [heard] = (await once(client, 'data')) as [Buffer]
    if (heard.toString() !== `message ${i}`) wrong += 1
  }
  t.equal(wrong, 0, 'small messages came back')
  client.end()
}

const datagrams = async (t: Test, port: number, count: number): Promise<void> => {
  const client = await udpClient(t, port)
  let wrong = 0
  for (let i = 0; i < count; i += 1) {
    if ((await client.ask(`datagram ${i}`)) !== `datagram ${i}`) wrong += 1
  }
  t.equal(wrong, 0, 'datagrams came back')
}
