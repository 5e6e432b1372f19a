import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import type {
  HandedOver,
  RelayEndpoint,
  RelayListener,
  TakenOver,
} from '../../../src/relay/relay.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayOfTwo, makeLinuxRelayWith } from '../../support/linux-relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  type ListenerSpec,
  listenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { dial, namedBackend } from '../../support/tcp-backend.ts'
import { typescript } from '../../support/typescript.ts'
import { udpBackend, type UdpBackend } from '../../support/udp-backend.ts'
import { udpClient, type UdpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const fixture = (
  t: Test,
  request: RelayRequest = {},
  make: MakeRelay = makeLinuxRelayOfTwo,
): RelayFixture => relayFixture(t, make, request)

const takeOver = async (
  before: RelayFixture,
  after: RelayFixture,
  listeners: readonly RelayListener[],
): Promise<{ readonly handed: HandedOver; readonly taken: TakenOver | undefined }> => {
  const place = await before.relay.handOver()
  const over = before.relay.handedOver()
  const { refused } = await after.relay.takeOver(place)
  if (refused !== '') throw new Error(refused)
  await after.relay.apply(listeners)
  const taken = await after.relay.finishTakeOver()
  return { handed: await over, taken }
}

/** Says which it is, and from which port it was asked. */
const seer = (t: Test, name: string): Promise<UdpBackend> =>
  udpBackend(t, (message, reply, from) =>
    reply(`${name} ${from.port} ${message.toString()}`),
  )

const three = (t: Test): Promise<UdpBackend[]> =>
  Promise.all(['a', 'b', 'c'].map(name => seer(t, name)))

const endpointsOf = (backends: readonly UdpBackend[]): RelayEndpoint[] =>
  backends.map(backend => backend.endpoint)

const udp = (port: number, over: ListenerSpec = {}): RelayListener =>
  listenerSpec({ protocol: 'UDP', binds: [{ address: testHost, port }], ...over })

const clientsAt = async (t: Test, port: number, count: number): Promise<UdpClient[]> => {
  const clients: UdpClient[] = []
  while (clients.length < count) {
    const some = Array.from({ length: Math.min(50, count - clients.length) }, () =>
      udpClient(t, port),
    )
    clients.push(...(await Promise.all(some)))
  }
  return clients
}

/** Which endpoint a client has, and what is its flow's port there. */
const placeOf = async (client: UdpClient): Promise<string> =>
  (await client.ask('?')).split(' ').slice(0, 2).join(' ')

const placesOf = async (clients: readonly UdpClient[]): Promise<string[]> => {
  const places: string[] = []
  for (let i = 0; i < clients.length; i += 50)
    places.push(...(await Promise.all(clients.slice(i, i + 50).map(placeOf))))
  return places
}

/** Beside the listening sockets, of which each of two workers has one. */
const flowFds = ({ relay }: RelayFixture): number => relay.stats().fds.used - 2

const notServed = 'UDP flows: not served by the new process'

t.test('flows pass to the next relay', { skip: linuxRelaySkip() }, async t => {
  t.test('five times, under traffic', async t => {
    const port = await freeUdpPort()
    const listeners = [udp(port, { endpoints: endpointsOf(await three(t)) })]
    const first = fixture(t)
    await first.relay.apply(listeners)
    const clients = await clientsAt(t, port, 200)
    const places = await placesOf(clients)
    t.equal(new Set(places).size, 200)

    const busy = clients.slice(0, 20)
    const before = busy.map(({ received }) => received.length)
    let sent = 0
    const timer = setInterval(() => {
      sent += 1
      for (const client of busy) client.send(String(sent))
    }, 5)
    t.teardown(() => clearInterval(timer))
    let now = first
    for (let turn = 0; turn < 5; turn += 1) {
      await sleep(100)
      const next = fixture(t)
      const { handed, taken } = await takeOver(now, next, listeners)
      t.match(handed, { refused: '', flows: 200, connections: 0, staying: {} })
      t.match(taken, { flows: 200, staying: {}, lost: '' })
      t.equal(now.stats().counters.active, 0)
      t.equal(now.relay.stats().fds.used, 0)
      await now.relay.drain(0)
      t.match(next.stats().counters, { active: 200, accepted: 200 })
      t.equal(flowFds(next), 200)
      t.strictSame([...now.faults, ...next.faults], [])
      now = next
    }
    await sleep(100)
    clearInterval(timer)
    const echoes = (): number[] =>
      busy.map(({ received }, i) => received.length - (before[i] ?? 0))
    await until('all have come back', () => echoes().every(count => count >= sent))
    t.strictSame([...new Set(echoes())], [sent], 'none comes twice')
    t.strictSame(await placesOf(clients), places, 'each has its endpoint, and its port')
    const { counters, endpoints } = now.stats()
    const all = 200 * 2 + 20 * sent
    t.match(counters, {
      active: 200,
      accepted: 200,
      datagramsToBackend: all,
      datagramsToClient: all,
      datagramsDropped: {},
    })
    const active = endpoints.map(one => one.active)
    t.equal(
      active.reduce((sum, count) => sum + count, 0),
      200,
    )
  })

  t.test('thousands, in several parts', async t => {
    const port = await freeUdpPort()
    const listeners = [udp(port, { endpoints: endpointsOf(await three(t)) })]
    const request = { limits: { udpReplyTimeout: 60_000, udpTimeout: 60_000 } }
    const before = fixture(t, request)
    await before.relay.apply(listeners)
    const clients = await clientsAt(t, port, 2500)
    const places = await placesOf(clients)
    const after = fixture(t, request)
    const { handed } = await takeOver(before, after, listeners)
    t.match(handed, { flows: 2500, staying: {} })
    await before.relay.drain(0)
    t.strictSame(await placesOf(clients), places)
    t.match(after.stats().counters, { active: 2500, accepted: 2500 })
  })

  t.test('from two workers to one, and to three', async t => {
    const port = await freeUdpPort()
    const listeners = [udp(port, { endpoints: endpointsOf(await three(t)) })]
    const first = fixture(t, {}, makeLinuxRelayWith({ workers: 1 }))
    await first.relay.apply(listeners)
    const clients = await clientsAt(t, port, 20)
    const places = await placesOf(clients)
    let now = first
    for (const workers of [3, 3]) {
      const next = fixture(t, {}, makeLinuxRelayWith({ workers }))
      const { handed } = await takeOver(now, next, listeners)
      t.match(handed, { flows: 20, staying: {} })
      await now.relay.drain(0)
      t.strictSame(await placesOf(clients), places)
      now = next
    }
  })

  t.test('at any address, with the one that was written to', async t => {
    const port = await freeUdpPort()
    const binds = [{ address: '0.0.0.0', port }]
    const listeners = [udp(port, { binds, endpoints: endpointsOf(await three(t)) })]
    const before = fixture(t)
    await before.relay.apply(listeners)
    // Their sockets are connected: what comes from another address does not reach them.
    const addresses = ['127.0.3.1', '127.0.3.2', '127.0.3.3', testHost]
    const clients = await Promise.all(addresses.map(one => udpClient(t, port, one)))
    const places = await placesOf(clients)
    const after = fixture(t)
    t.match((await takeOver(before, after, listeners)).handed, { flows: 4, staying: {} })
    await before.relay.drain(0)
    t.strictSame(await placesOf(clients), places)
    t.equal(after.stats().counters.accepted, 4)
  })

  t.test('of a client that is spread over endpoints, in its turn', async t => {
    const port = await freeUdpPort()
    const backends = await three(t)
    const listeners = [
      udp(port, {
        endpoints: endpointsOf(backends),
        udp: { spread: 2, idleMs: 60_000 },
      }),
    ]
    const before = fixture(t)
    await before.relay.apply(listeners)
    const client = await udpClient(t, port)
    const seen: string[] = []
    // In the middle of an endpoint's turn.
    for (let i = 0; i < 9; i += 1) seen.push(await placeOf(client))
    const after = fixture(t)
    t.match((await takeOver(before, after, listeners)).handed, { flows: 3, staying: {} })
    await before.relay.drain(0)
    for (let i = 9; i < 18; i += 1) seen.push(await placeOf(client))
    t.equal(seen[9], seen[8], 'the endpoint has what is left of its turn')
    // Where the next round begins is the worker's own choice.
    for (const i of [10, 12, 14, 16]) t.equal(seen[i], seen[i + 1], 'and no more')
    t.not(seen[12], seen[10])
    t.equal(new Set(seen).size, 3, 'by the same flows')
    t.equal(after.stats().counters.accepted, 3)
    const counts = backends.map(({ received }) => received.length)
    t.equal(
      counts.reduce((sum, count) => sum + count, 0),
      18,
    )
  })

  t.test(
    'to an endpoint that is not there any more, and to one that may stay',
    async t => {
      const port = await freeUdpPort()
      const [a, b] = await three(t)
      if (a === undefined || b === undefined) throw new Error('no backends')
      for (const staying of [[], [a.endpoint.key]]) {
        const before = fixture(t)
        await before.relay.apply([udp(port, { endpoints: [a.endpoint] })])
        const client = await udpClient(t, port)
        const place = await placeOf(client)
        const after = fixture(t)
        const wanted = [udp(port, { endpoints: [b.endpoint], staying })]
        t.match((await takeOver(before, after, wanted)).handed, { flows: 1, staying: {} })
        await before.relay.drain(0)
        const now = await placeOf(client)
        if (staying.length === 0) t.match(now, /^b /)
        else t.equal(now, place)
        const { counters, endpoints } = after.stats()
        t.match(counters, { active: 1, accepted: 1 })
        t.match(endpoints, [{ active: staying.length === 0 ? 1 : 0 }])
        await after.relay.drain(0)
        await client.close()
      }
    },
  )

  t.test('and are as old as they were', async t => {
    const [port, idleMs] = [await freeUdpPort(), 4000]
    const listeners = [
      udp(port, { endpoints: endpointsOf(await three(t)), udp: { idleMs } }),
    ]
    const before = fixture(t)
    await before.relay.apply(listeners)
    await placesOf(await clientsAt(t, port, 10))
    await sleep(2500)
    const after = fixture(t)
    await takeOver(before, after, listeners)
    const tookAt = performance.now()
    t.equal(after.stats().counters.active, 10)
    await until('they end', () => after.stats().counters.active === 0)
    t.ok(performance.now() - tookAt < idleMs, 'the time before counts, too')
    t.equal(flowFds(after), 0)
  })
  t.end()
})

t.test('flows stay', { skip: linuxRelaySkip() }, async t => {
  const set = async (t: Test) => {
    const port = await freeUdpPort()
    const listeners = [udp(port, { endpoints: endpointsOf(await three(t)) })]
    const before = fixture(t)
    await before.relay.apply(listeners)
    const clients = await clientsAt(t, port, 100)
    const places = await placesOf(clients)
    /** As if nothing had been. */
    const isAsBefore = async (t: Test): Promise<void> => {
      t.strictSame(await placesOf(clients), places)
      t.equal(before.stats().counters.active, 100)
      t.equal(before.stats().counters.accepted, 100)
      t.equal(flowFds(before), 100)
      t.strictSame(before.faults, [])
    }
    return { port, listeners, before, clients, isAsBefore }
  }

  t.test('where the next relay has too few descriptors', async t => {
    const { port, listeners, before, isAsBefore } = await set(t)
    const after = fixture(t, { openFileLimit: 64 + 50 })
    const { handed, taken } = await takeOver(before, after, listeners)
    const staying = { 'UDP flows: the new process has too few file descriptors': 100 }
    t.match(handed, { flows: 0, staying })
    t.match(taken, { flows: 0, staying, lost: '' })
    await isAsBefore(t)
    const late = await udpClient(t, port)
    t.match(await placeOf(late), /^[abc] /, 'and new ones begin there')
    t.equal(before.stats().counters.accepted, 101)
    await until(
      'the next one waits for the address',
      () => after.stats().binds[0]?.state === 'failed',
    )
    await before.relay.drain(0)
    await until(
      'it has it then',
      () => after.stats().binds[0]?.state === 'listening',
      20_000,
    )
    t.match(await placeOf(late), /^[abc] /)
    t.equal(after.stats().counters.accepted, 101, 'with what was counted at first')
    t.strictSame(after.faults, [])
  })

  t.test('where the next relay has no such listener', async t => {
    const { before, isAsBefore } = await set(t)
    const after = fixture(t)
    const other = udp(await freeUdpPort(), { id: 'other', endpoints: [] })
    const { handed, taken } = await takeOver(before, after, [other])
    t.match(handed, { flows: 0, staying: { [notServed]: 100 } })
    t.match(taken, { flows: 0, staying: { [notServed]: 100 } })
    await isAsBefore(t)
  })

  for (const role of ['killed', 'unwilling'])
    t.test(`when a process that has them is ${role}`, async t => {
      const { before, isAsBefore } = await set(t)
      const { name, token } = await before.relay.handOver()
      const over = before.relay.handedOver()
      const program = fileURLToPath(new URL('hand-over-child.ts', import.meta.url))
      const child = spawn(process.execPath, [typescript, program, role, name, token], {
        stdio: ['ignore', 'inherit', 'inherit'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      const [code, signal] = (await once(child, 'exit')) as [unknown, string]
      t.equal(signal ?? code, role === 'killed' ? 'SIGKILL' : 0)
      const { flows, staying } = await over
      t.equal(flows, 0)
      t.strictSame(Object.values(staying), [100])
      t.match(Object.keys(staying), [
        role === 'killed' ? /^UDP flows: .*ended/ : 'UDP flows: no wish to',
      ])
      await isAsBefore(t)
    })
  t.end()
})

t.test('affinity passes to the next relay', { skip: linuxRelaySkip() }, async t => {
  const addresses = Array.from({ length: 24 }, (_, i) => `127.0.7.${i + 1}`)
  const affinityMs = 60_000

  t.test('of TCP, and goes on to its end', async t => {
    const port = await freeTcpPort()
    const bind = { address: testHost, port }
    const backends = await Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))
    const listeners = [
      listenerSpec({
        binds: [bind],
        endpoints: backends.map(one => one.endpoint),
        affinityMs,
      }),
    ]
    const whereIs = async (from: string): Promise<string> => {
      const socket = dial(t, port, testHost, from)
      const [name] = (await once(socket, 'data')) as [Buffer]
      socket.destroy()
      return name.toString()
    }
    const first = fixture(t)
    await first.relay.apply(listeners)
    const places: string[] = []
    for (const from of addresses) places.push(await whereIs(from))
    t.equal(new Set(places).size, 3)
    const leftMs = async (at: RelayFixture, client: string): Promise<number> => {
      const query = { listener: 'test', bind, client, dialled: testHost }
      const { workers } = await at.relay.query('explain', query)
      const known = workers.filter(one => one.mayCome && one.affinity !== undefined)
      t.equal(known.length, 1, 'one worker knows it')
      return known[0]?.affinity?.leftMs ?? 0
    }
    let now = first
    for (let turn = 0; turn < 2; turn += 1) {
      const client = addresses[turn] ?? ''
      await sleep(300)
      const before = await leftMs(now, client)
      const next = fixture(t)
      await takeOver(now, next, listeners)
      const after = await leftMs(next, client)
      t.ok(after <= before && after > before - 30_000, `${before}, then ${after}`)
      await now.relay.drain(0)
      const again: string[] = []
      for (const from of addresses) again.push(await whereIs(from))
      t.strictSame(again, places)
      t.strictSame([...now.faults, ...next.faults], [])
      now = next
    }
    const gone = backends[0]?.endpoint.key
    const left = backends.map(one => one.endpoint).filter(({ key }) => key !== gone)
    const last = fixture(t)
    await takeOver(now, last, [
      listenerSpec({ binds: [bind], endpoints: left, affinityMs }),
    ])
    for (const [i, from] of addresses.entries()) {
      const place = await whereIs(from)
      if (places[i] === 'a')
        t.match(place, /^[bc]$/, 'of an endpoint that went nothing is left')
      else t.equal(place, places[i])
    }
  })

  t.test('where it has expired it leads nowhere', async t => {
    const port = await freeUdpPort()
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    const short = 2000
    const from = '127.0.7.99'
    const only = (one: UdpBackend, ms: number) =>
      udp(port, { endpoints: [one.endpoint], affinityMs: ms })
    const before = fixture(t)
    await before.relay.apply([only(a, short)])
    t.match(await placeOf(await udpClient(t, port, testHost, from)), /^a /)
    await sleep(short + 100)
    const after = fixture(t)
    const both = udp(port, { endpoints: endpointsOf([a, b]), affinityMs: affinityMs })
    await takeOver(before, after, [both])
    const bind = { address: testHost, port }
    const query = { listener: 'test', bind, client: from, dialled: testHost }
    const { workers } = await after.relay.query('explain', query)
    t.ok(workers.every(one => one.affinity === undefined))
  })

  t.test('of UDP, from workers that each know some to one that knows all', async t => {
    const port = await freeUdpPort()
    const listeners = [udp(port, { endpoints: endpointsOf(await three(t)), affinityMs })]
    const before = fixture(t)
    await before.relay.apply(listeners)
    const placeFrom = async (from: string): Promise<string> => {
      const client = await udpClient(t, port, testHost, from)
      return (await placeOf(client)).slice(0, 1)
    }
    const places: string[] = []
    for (const from of addresses) places.push(await placeFrom(from))
    const after = fixture(t, {}, makeLinuxRelayWith({ workers: 3 }))
    const { handed } = await takeOver(before, after, listeners)
    t.match(handed, { flows: addresses.length, staying: {} })
    await before.relay.drain(0)
    const again: string[] = []
    for (const from of addresses) again.push(await placeFrom(from))
    t.strictSame(again, places)
    t.equal(after.stats().counters.accepted, 2 * addresses.length)
  })
  t.end()
})
