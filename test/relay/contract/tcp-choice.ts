import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { onLinux } from '../../support/connection.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  endpoint,
  frontOf,
  listenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import {
  ask,
  namedBackend,
  type TcpBackend,
  tcpBackend,
} from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const at = (port: number) => [{ address: testHost, port }]

const three = async (t: Test): Promise<TcpBackend[]> =>
  Promise.all(['a', 'b', 'c'].map(name => namedBackend(t, name)))

const endpointsOf = (backends: readonly TcpBackend[]): RelayEndpoint[] =>
  backends.map(backend => backend.endpoint)

/** Which endpoint a connection goes to, and what listening does over time. */
export const tcpChoiceContract = (t: Test, make: MakeRelay): void => {
  t.test('connections take turns among the endpoints', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    await listen({ binds: at(port), endpoints: endpointsOf(await three(t)) })
    const seen: string[] = []
    for (let i = 0; i < 9; i += 1) seen.push((await ask(port)).text)
    t.equal(new Set(seen.slice(0, 3)).size, 3, 'each once in the first round')
    t.strictSame(seen.slice(3, 6), seen.slice(0, 3), 'in the same order again')
    t.strictSame(seen.slice(6, 9), seen.slice(0, 3))
  })

  t.test('with ClientIP affinity a client stays where it was', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const endpoints = endpointsOf(await three(t))
    await listen({ binds: at(port), endpoints, affinityMs: 60_000 })
    const places = new Map<string, Set<string>>()
    for (let round = 0; round < 4; round += 1) {
      for (const client of ['127.0.0.11', '127.0.0.12', '127.0.0.13']) {
        const { text } = await ask(port, testHost, client)
        places.set(client, (places.get(client) ?? new Set()).add(text))
      }
    }
    const stuck = Array.from(places.values(), set => Array.from(set))
    t.ok(
      stuck.every(set => set.length === 1),
      'each client saw one endpoint',
    )
    t.equal(new Set(stuck.flat()).size, 3, 'and the clients are spread')
  })

  t.test('a failed attempt does not overwrite the affinity', async t => {
    const { listen, records } = relayFixture(t, make)
    const port = await freeTcpPort()
    const gone = await freeTcpPort()
    const sticky = await tcpBackend(
      t,
      socket => void socket.end('sticky'),
      testHost,
      gone,
    )
    const endpoints = [endpoint(testHost, gone)]
    await listen({ binds: at(port), endpoints, affinityMs: 60_000 })
    t.equal((await ask(port)).text, 'sticky')
    await sticky.close()
    const failed = ask(port)
    await until('an attempt was refused', () => records.length >= 1)
    await new Promise(resolve => setTimeout(resolve, 100))
    const others = await three(t)
    await listen({
      binds: at(port),
      endpoints: [...endpoints, ...endpointsOf(others)],
      affinityMs: 60_000,
    })
    t.match((await failed).text, /^[abc]$/, 'the waiting client was served elsewhere')
    const { text } = await ask(port)
    t.equal(text, (await failed).text, 'and stays with who served it')
  })

  t.test('a bind is not closed when only endpoints change', async t => {
    const { listen, stats } = relayFixture(t, make)
    const port = await freeTcpPort()
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    await listen({ binds: at(port), endpoints: [a.endpoint] })
    t.equal((await ask(port)).text, 'a')
    await listen({ binds: at(port), endpoints: [b.endpoint] })
    t.equal((await ask(port)).text, 'b')
    t.equal(stats().counters.accepted, 2, 'it is the same listener')
  })

  t.test('one listener serves several addresses with one balancer', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const hosts = [1, 2, 3].map(n => testHost.replace(/^127\.\d+/, `127.${10 + n}`))
    const binds = hosts.map(address => ({ address, port }))
    await listen({ binds, endpoints: endpointsOf(await three(t)) })
    const seen: string[] = []
    for (const host of hosts) seen.push((await ask(port, host)).text)
    t.equal(new Set(seen).size, 3, 'three addresses, three turns')
    await listen({ binds: binds.slice(0, 1), endpoints: endpointsOf(await three(t)) })
    t.match(await ask(port, hosts[1]), { how: 'ECONNREFUSED' })
  })

  t.test('a port in use is tried again, the other binds work meanwhile', async t => {
    const { listen, stats } = relayFixture(t, make)
    const taken = await namedBackend(t, 'somebody else')
    const port = taken.endpoint.port
    const free = await freeTcpPort()
    const alive = await namedBackend(t, 'alive')
    await listen({
      binds: [...at(port), { address: testHost, port: free }],
      endpoints: [alive.endpoint],
    })
    t.match(stats().binds, [
      { state: 'failed', error: 'EADDRINUSE' },
      { state: 'listening' },
    ])
    t.equal((await ask(free)).text, 'alive')
    await taken.close()
    await until('it listens', () => stats().binds.every(one => one.state === 'listening'))
    t.equal((await ask(port)).text, 'alive')
  })

  t.test('with more addresses than descriptors those that listen serve', async t => {
    const limited = { openFileLimit: 140, limits: { reservedFds: 100 } }
    const { listen, stats, relay, pauses } = relayFixture(t, make, limited)
    const port = await freeTcpPort()
    const { endpoint: to } = await namedBackend(t, 'a')
    const hosts = Array.from({ length: 60 }, (_, i) => `127.251.0.${i + 1}`)
    const bindsOf = (count: number) =>
      hosts.slice(0, count).map(address => ({ address, port }))
    await listen({ binds: bindsOf(60), endpoints: [to] })
    const listening = stats().binds.filter(({ state }) => state === 'listening')
    t.equal(listening.length, 30)
    for (const { bind } of listening)
      t.match(await ask(port, bind.address), { text: 'a' })
    t.strictSame([pauses.length, relay.stats().acceptPaused], [0, false])
    await listen({ binds: bindsOf(60).slice(30, 50), endpoints: [to] })
    await until('others have their place', () =>
      stats().binds.every(({ state }) => state === 'listening'),
    )
  })

  for (const stage of ['made', 'listening'] as const) {
    const title = `a drain while listeners are being ${stage} leaves nothing open`
    t.test(title, onLinux, async t => {
      const { relay } = relayFixture(t, make)
      const port = await freeTcpPort()
      const { endpoint: to } = await namedBackend(t, 'a')
      const many = Array.from({ length: 2000 }, (_, i) =>
        listenerSpec({
          id: `${i}`,
          binds: [{ address: `127.250.${i >> 8}.${i & 255}`, port }],
          endpoints: [to],
        }),
      )
      const binds = () => [...relay.stats().listeners].flatMap(one => one.binds)
      const listening = () => binds().filter(({ state }) => state === 'listening').length
      const begun = () =>
        stage === 'made' ? [...relay.stats().listeners].length : listening()
      const applied = relay.apply(many)
      while (begun() === 0) await turn()
      const early = begun()
      await relay.drain(0)
      await applied
      t.ok(early < many.length, `${early} were ${stage} when it began`)
      t.equal(listening(), 0)
      t.equal(relay.stats().fds.used, 0)
    })
  }

  t.test('an endpoint that just failed is shown as cooling down', async t => {
    const { listen, stats } = relayFixture(t, make)
    const port = await freeTcpPort()
    const dead = endpoint(testHost, await freeTcpPort())
    const [a] = await three(t)
    if (a === undefined) throw new Error('no backend')
    await listen({ binds: at(port), endpoints: [dead, a.endpoint] })
    for (let i = 0; i < 2; i += 1) t.equal((await ask(port)).text, 'a')
    t.strictSame(
      stats().endpoints.map(({ key, coolingDown }) => [key === dead.key, coolingDown]),
      [
        [true, true],
        [false, false],
      ],
    )
  })

  t.test('a port moves from one listener to another in one step', async t => {
    const { relay } = relayFixture(t, make)
    const port = await freeTcpPort()
    const [a, b] = await three(t)
    if (a === undefined || b === undefined) throw new Error('no backends')
    const spec = (id: string, backend: TcpBackend) => ({
      id,
      name: id,
      protocol: 'TCP' as const,
      fronts: [frontOf(at(port))],
      endpoints: [backend.endpoint],
      affinityMs: 0,
    })
    await relay.apply([spec('one', a)])
    t.equal((await ask(port)).text, 'a')
    await relay.apply([spec('two', b)])
    t.equal((await ask(port)).text, 'b')
    t.strictSame(
      [...relay.stats().listeners].map(({ id }) => id),
      ['two'],
      'nothing is left of the first',
    )
  })

  t.test('a port that passes on while descriptors are short resets nobody', async t => {
    const limited = { openFileLimit: 240, limits: { reservedFds: 100 } }
    const { relay, pauses } = relayFixture(t, make, limited)
    const { endpoint: to } = await namedBackend(t, 'a')
    const hosts = Array.from({ length: 100 }, (_, i) => `127.252.0.${i + 1}`)
    const port = await freeTcpPort()
    const named = (round: number) =>
      hosts.map(address =>
        listenerSpec({
          id: `${address} ${round}`,
          binds: [{ address, port }],
          endpoints: [to],
        }),
      )
    await relay.apply(named(0))
    const over = new AbortController()
    const endings = new Set<string>()
    const visits = Array.from({ length: 100 }, async (_, i) => {
      while (!over.signal.aborted) endings.add((await ask(port, hosts[i % 3])).how)
    })
    await until('accepting was paused', () => pauses.length > 0)
    for (let round = 1; round <= 20; round += 1) await relay.apply(named(round))
    over.abort()
    await Promise.all(visits)
    t.strictSame([...endings], ['end'])
  })
}
