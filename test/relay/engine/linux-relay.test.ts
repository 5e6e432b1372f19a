import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { SO_ATTACH_REUSEPORT_CBPF } from '../../../src/ffi/constants.ts'
import { errno } from '../../../src/ffi/errno.ts'
import { loadSyscalls, type Syscalls } from '../../../src/ffi/syscalls.ts'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { onLinux, withIpv6 } from '../../support/connection.ts'
import { makeLinuxRelayWith, mortalWorker } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  endpoint as endpointOf,
  frontOf,
  listenerSpec,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { ask, namedBackend } from '../../support/tcp-backend.ts'
import { echoUdp, namedUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const at = (port: number, address = testHost) => [{ address, port }]

const affinity = (t: Test, host: string, workers: number, options: object): void => {
  t.test(`affinity holds with ${workers} workers at ${host}`, options, async t => {
    const { relay } = relayFixture(t, makeLinuxRelayWith({ workers }))
    const [port, udpPort] = [await freeTcpPort(host), await freeTcpPort(host)]
    const endpoints = await namedEndpoints(t)
    const udps = await Promise.all(['a', 'b', 'c'].map(name => namedUdp(t, name)))
    const affinityMs = 60_000
    await relay.apply([
      listenerSpec({ id: 'tcp', binds: at(port, host), endpoints, affinityMs }),
      listenerSpec({
        id: 'udp',
        protocol: 'UDP',
        binds: at(udpPort, host),
        endpoints: udps.map(one => one.endpoint),
        affinityMs,
      }),
    ])
    const clients = host === '::1' ? [host] : ['127.0.6.1', '127.0.6.2', '127.0.6.3']
    for (const client of clients) {
      const answers = await inTurn(12, () => tcpAnswer(port, host, client))
      t.equal(new Set(answers).size, 1, `${client}: ${answers.join('')}`)
      const told = await inTurn(12, async () =>
        (await udpClient(t, udpPort, host, client)).ask('who?'),
      )
      t.equal(new Set(told).size, 1, `${client} over UDP: ${told.join('')}`)
    }
  })
}

const namedEndpoints = async (t: Test) => {
  const backends = await Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))
  return backends.map(({ endpoint }) => endpoint)
}

const tcpAnswer = async (port: number, host?: string, from?: string): Promise<string> => {
  const { text, how } = await ask(port, host, from)
  return how === 'end' ? text : how
}

const inTurn = async <T>(count: number, one: (i: number) => Promise<T>): Promise<T[]> => {
  const all: T[] = []
  for (let i = 0; i < count; i += 1) all.push(await one(i))
  return all
}

/** What the main thread adds to the contract: several workers, many listeners. */
t.test('the relay', { skip: linuxRelaySkip() }, async t => {
  for (const [host, options] of [
    [testHost, onLinux],
    ['::1', withIpv6],
  ] as const) {
    for (const workers of [2, 3]) affinity(t, host, workers, options)
  }

  t.test('affinity that is switched on counts for open sockets', async t => {
    const { listen } = relayFixture(t, makeLinuxRelayWith({ workers: 3 }))
    const port = await freeTcpPort()
    const endpoints = await namedEndpoints(t)
    const answers = async (): Promise<Set<string>> =>
      new Set(await inTurn(16, () => tcpAnswer(port)))
    await listen({ binds: at(port), endpoints })
    t.ok((await answers()).size > 1)
    await listen({ binds: at(port), endpoints, affinityMs: 60_000 })
    t.equal((await answers()).size, 1)
    await listen({ binds: at(port), endpoints })
    t.ok((await answers()).size > 1)
  })

  t.test('where descriptors are few a listener has one worker', async t => {
    const make = makeLinuxRelayWith({ workers: 3 })
    const request = { openFileLimit: 140, limits: { reservedFds: 100 } }
    const { listen, relay } = relayFixture(t, make, request)
    const port = await freeTcpPort()
    const endpoints = await namedEndpoints(t)
    const binds = Array.from({ length: 5 }, (_, i) => ({
      address: `127.252.0.${i + 1}`,
      port,
    }))
    await listen({ binds: binds.slice(0, 2), endpoints })
    t.equal(relay.stats().fds.used, 6, 'one for each worker')
    await relay.apply([])
    t.equal(relay.stats().fds.used, 0)
    await listen({ binds, endpoints, affinityMs: 60_000 })
    t.equal(relay.stats().fds.used, 5)
    const answers = await inTurn(5, i => tcpAnswer(port, `127.252.0.${i + 1}`, testHost))
    t.equal(new Set(answers).size, 1, 'its addresses share affinity')
  })

  t.test('a UDP port moves from one listener to another in one step', async t => {
    const { relay } = relayFixture(t, makeLinuxRelayWith({ workers: 2 }))
    const port = await freeTcpPort()
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    const spec = (id: string, to: typeof a): RelayListener =>
      listenerSpec({ id, protocol: 'UDP', binds: at(port), endpoints: [to.endpoint] })
    for (let round = 0; round < 3; round += 1) {
      for (const [id, to, answer] of [
        ['one', a, 'a'],
        ['two', b, 'b'],
      ] as const) {
        await relay.apply([spec(id, to)])
        const client = await udpClient(t, port)
        t.equal(await client.ask('who?'), answer)
      }
    }
  })

  t.test(
    'what is refused for a socket that moves leaves it open until workers let go',
    async t => {
      const real = loadSyscalls()
      let refused = false
      const closedAtOnce: number[] = []
      const calls: Syscalls = {
        ...real,
        setsockopt: (fd, level, name, value, length) => {
          if (name !== SO_ATTACH_REUSEPORT_CBPF || refused)
            return real.setsockopt(fd, level, name, value, length)
          refused = true
          // Orders are on their way: no worker can have carried one out in this turn.
          over = false
          setImmediate(() => (over = true))
          return -errno.ENOMEM
        },
        close: fd => {
          if (!over) closedAtOnce.push(fd)
          return real.close(fd)
        },
      }
      let over = true
      const { relay } = relayFixture(t, makeLinuxRelayWith({ workers: 2, calls }))
      const port = await freeTcpPort()
      const [a] = await namedEndpoints(t)
      if (a === undefined) throw new Error('three')
      await relay.apply([listenerSpec({ id: 'one', binds: at(port), endpoints: [a] })])
      const sticky = { id: 'two', binds: at(port), endpoints: [a], affinityMs: 60_000 }
      await relay.apply([listenerSpec(sticky)])
      t.ok(refused)
      t.strictSame(closedAtOnce, [])
      const isServed = async () =>
        (await ask(port).catch(() => ({ text: '' }))).text === 'a'
      await until('it is served a moment later', isServed)
    },
  )

  t.test('a slot that is used again begins at zero', async t => {
    const { listen, relay, stats } = relayFixture(t, makeLinuxRelayWith({ workers: 2 }))
    const [port, other] = [await freeTcpPort(), await freeTcpPort()]
    const dead = endpointOf(testHost, await freeTcpPort())
    const [backend] = await namedEndpoints(t)
    if (backend === undefined) throw new Error('three')
    await listen({ id: 'first', binds: at(port), endpoints: [dead, backend] })
    await inTurn(6, () => tcpAnswer(port))
    t.match(stats('first').counters, { accepted: 6 })
    t.match(stats('first').endpoints[0], { key: dead.key, coolingDown: true })
    await until('all have ended', () => stats('first').counters.active === 0)
    await relay.apply([])
    await listen({ id: 'second', binds: at(other), endpoints: [backend] })
    t.match(stats('second').counters, { accepted: 0, failed: {}, bytesToClient: 0 })
    t.match(stats('second').endpoints, [{ active: 0, failures: 0, coolingDown: false }])
  })

  t.test('each worker knows who is on the node, also those that are new', async t => {
    const { program, tell } = mortalWorker(t, "throw new Error('told to')")
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const { listen, relay, faults } = relayFixture(t, make)
    const port = await freeTcpPort()
    const [a, b] = await namedEndpoints(t)
    if (a === undefined || b === undefined) throw new Error('three')
    const front = frontOf(at(port), { endpoints: [a.key], endpointsFromNode: [b.key] })
    await listen({ fronts: [front], endpoints: [a, b] })
    const answers = async (from: string): Promise<string> => {
      const texts = await Promise.all(
        Array.from({ length: 10 }, async () => (await ask(port, testHost, from)).text),
      )
      return [...new Set(texts)].join(' ')
    }
    t.equal(await answers('127.0.0.11'), 'a', 'until it is said')
    relay.setNodeClients({ addresses: ['127.0.0.11'], cidrs: ['127.0.1.0/24'] })
    await until('they have heard', async () => (await answers('127.0.0.11')) === 'b')
    t.equal(await answers('127.0.1.12'), 'b')
    t.equal(await answers('127.0.0.12'), 'a')
    for (const worker of [1, 2]) {
      await tell(worker)
      await until('it has died', () => faults.length === worker)
      t.equal(await answers('127.0.0.11'), 'b')
      t.equal(await answers('127.0.0.12'), 'a')
    }
  })

  t.test('3000 listeners of both protocols come, change and go', async t => {
    const request = { openFileLimit: 20_000 }
    const make = makeLinuxRelayWith({ workers: 2 })
    const { relay, stats, faults } = relayFixture(t, make, request)
    const port = await freeTcpPort()
    const [tcp] = await namedEndpoints(t)
    const { endpoint: udp } = await echoUdp(t)
    if (tcp === undefined) throw new Error('three')
    const host = (i: number): string => `127.253.${i >> 7}.${(i & 127) + 1}`
    const specs = Array.from({ length: 3000 }, (_, i) => {
      const protocol = i % 2 === 0 ? 'TCP' : 'UDP'
      const endpoints = [protocol === 'TCP' ? tcp : udp]
      return listenerSpec({ id: `${i}`, protocol, binds: at(port, host(i)), endpoints })
    })
    const works = async (i: number): Promise<void> => {
      if (i % 2 === 0) return t.equal(await tcpAnswer(port, host(i)), 'a') as never
      const client = await udpClient(t, port, host(i))
      t.equal(await client.ask('hello'), 'hello')
    }
    await relay.apply(specs)
    for (const i of [0, 1, 1500, 2999]) await works(i)
    const renamed = specs.map(spec => listenerSpec({ ...spec, id: `new ${spec.id}` }))
    await relay.apply(renamed)
    t.equal([...relay.stats().listeners].length, 3000)
    for (const i of [0, 1, 1500, 2999]) await works(i)
    t.match(stats('new 1500').binds, [{ state: 'listening' }])
    await relay.apply([])
    t.strictSame([...relay.stats().listeners], [])
    t.equal(relay.stats().fds.used, 0)
    t.strictSame(faults, [])
  })
})
