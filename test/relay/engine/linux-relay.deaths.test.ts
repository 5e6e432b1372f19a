import { once } from 'node:events'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeLinuxRelayWith, mortalWorker } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  listenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { dial, echoBackend, firstWord, namedBackend } from '../../support/tcp-backend.ts'
import { echoUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'
import { watchEnds } from '../contract/tcp-ended.ts'

/** What a worker does that is in a system call for so many seconds. */
const sleepInCall = (seconds: number): string => `
  const { createRequire } = process.getBuiltinModule('node:module')
  const koffi = createRequire(${JSON.stringify(import.meta.url)})('koffi')
  koffi.load(null).func('uint32_t sleep(uint32_t)')(${seconds})`

/** So many that a new worker can't be told of them in one go. */
const listeners = 1500
/** Few enough to change before it hears of them. */
const lastOnes = 10

const overtaking = async (t: Test): Promise<void> => {
  const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
  let died = (): void => {}
  const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
  const watched: MakeRelay = request => {
    const fault = (listener: string, error: Error): void => {
      request.observer.fault(listener, error)
      died()
    }
    return make({ ...request, observer: { ...request.observer, fault } })
  }
  const { relay, faults } = relayFixture(t, watched, { openFileLimit: 20_000 })
  const { endpoint } = await echoBackend(t)
  const port = await freeTcpPort()
  const host = (i: number): string => `127.251.${i >> 7}.${(i & 127) + 1}`
  const specs = Array.from({ length: listeners }, (_, i) =>
    listenerSpec({
      id: `${i}`,
      binds: [{ address: host(i), port }],
      endpoints: [endpoint],
    }),
  )
  await relay.apply(specs)
  const stay = specs.slice(0, listeners - lastOnes)
  const others = specs.slice(listeners - lastOnes)
  const changed = [...stay, ...others.map(spec => renamed(spec))]
  const applied = new Promise<void>((resolve, reject) => {
    died = () => void relay.apply(changed).then(resolve, reject)
  })
  await tell(1)
  await applied
  t.equal(faults.length, 1)
  let answers = 0
  const last = Array.from({ length: lastOnes }, (_, i) => host(listeners - 1 - i))
  for (const one of last) {
    for (let i = 0; i < 8; i += 1) {
      dial(t, port, one)
        .once('data', () => (answers += 1))
        .write('hello')
    }
  }
  await until('all 80 are answered', () => answers === 80)
}

const renamed = (spec: RelayListener): RelayListener => ({ ...spec, name: 'again' })

/** Workers that die at a bad moment, hang, or can't be had; and what they share. */
t.test('deaths of workers', { skip: linuxRelaySkip() }, async t => {
  t.test('an apply while a new worker is being told loses no socket', t => overtaking(t))

  t.test('lines of the access log that go with a worker are counted', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 1, workerProgram: program })
    const { listen, faults, accessBatches } = relayFixture(t, make)
    const { endpoint } = await echoBackend(t)
    const port = await freeTcpPort()
    const accessLog = { format: 'tcplog', to: 'stdout', route: 'db' } as const
    await listen({
      binds: [{ address: testHost, port }],
      endpoints: [endpoint],
      accessLog,
    })
    const clients = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const client = dial(t, port)
        client.on('error', () => {})
        client.write('hello')
        await once(client, 'data')
        return client
      }),
    )
    const sum = (of: 'lines' | 'lost') =>
      accessBatches.reduce((all, batch) => all + batch[of], 0)
    for (const client of clients.slice(3)) client.destroy()
    await until('two have ended', () => sum('lines') === 2)
    t.equal(sum('lost'), 0)
    await tell(1)
    await until('it has died', () => faults.length === 1)
    await until('they are counted', () => sum('lost') > 0)
    t.strictSame([sum('lines'), sum('lost')], [2, 3])
    const again = dial(t, port)
    again.write('hello')
    await once(again, 'data')
    again.destroy()
    await until('the next worker writes too', () => sum('lines') === 3)
    await tell(1)
    await until('it has died too', () => faults.length === 2)
    t.equal(sum('lost'), 3, 'and nothing is counted twice')
  })

  t.test('who looks at ends is told that some went with a worker', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const { relay, listen, faults } = relayFixture(t, make)
    const { endpoint } = await namedBackend(t, 'a')
    const port = await freeTcpPort()
    await listen({ binds: [{ address: testHost, port }], endpoints: [endpoint] })
    const { look, seen } = await watchEnds(relay)
    t.match(await look(), { gap: false })
    await tell(1)
    await until('it has died', () => faults.length === 1)
    await until('that is said', async () => (await look()).gap)
    await until('and no longer when another is there', async () => !(await look()).gap)
    const before = seen.length
    for (let i = 0; i < 20; i += 1) await firstWord(port)
    await until('both are told of', async () => {
      await look()
      return seen.length === before + 20
    })
  })

  t.test('a thread that is not to be had is asked for again', async t => {
    const workerProgram = { file: new URL('http://nowhere/'), execArgv: [] }
    const make = makeLinuxRelayWith({ workerProgram, workers: 2 })
    const { relay, faults } = relayFixture(t, make)
    await relay.apply([])
    await until('it was tried again', () => faults.length > 4)
    t.match(faults[0], { message: /worker 1 of the relay has died: .*scheme/ })
    t.strictSame(await relay.drain(0), { reset: 0 })
  })

  t.test('a worker that spins is noticed, and workers start again', async t => {
    const { program, tell } = mortalWorker(t, 'for (;;);')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const { listen, relay, hangs, faults } = relayFixture(t, make)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    await listen({ binds: [{ address: testHost, port }], endpoints: [endpoint] })
    await tell(2)
    await until('it is noticed', () => hangs.length > 0)
    await until('it is replaced', () => hangs.length > 1)
    t.strictSame(hangs, [
      [2, true],
      [2, false],
    ])
    t.match(faults, [{ message: /worker 2 .* has died: it did not respond for 1.5 s/ }])
    t.match(relay.stats().workers, [
      { restarts: 0, hangs: 0 },
      { restarts: 1, hangs: 1 },
    ])
    const isServed = async (): Promise<boolean> => {
      const client = dial(t, port)
      client.on('error', () => {})
      client.end('hello')
      const [word] = (await once(client, 'data')) as [Buffer]
      return word.toString() === 'hello'
    }
    for (let i = 0; i < 20; i += 1) t.ok(await isServed())
  })

  t.test('a worker in a call that does not return ends the process', async t => {
    const { program, tell } = mortalWorker(t, sleepInCall(4))
    let ended = 0
    const endProcess = (): void => void (ended += 1)
    const make = makeLinuxRelayWith({ workerProgram: program, endProcess })
    const { listen, faults, hangs } = relayFixture(t, make)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    await listen({ binds: [{ address: testHost, port }], endpoints: [endpoint] })
    await tell(1)
    await until('it is noticed', () => hangs.length > 0)
    await until('the process is ended', () => ended > 0)
    t.equal(ended, 1)
    t.match(faults, [
      { message: /worker 1 of the relay can't be ended: the process ends/ },
    ])
  })

  t.test('one that ends late, but ends, does not take the process along', async t => {
    const clock = new FakeClock()
    const { program, tell } = mortalWorker(t, 'for (;;);')
    let ended = 0
    const endProcess = (): void => void (ended += 1)
    const over = { workerProgram: program, endProcess, clock }
    const { relay, faults } = relayFixture(t, makeLinuxRelayWith(over))
    await relay.apply([listenerSpec({})]) // After which the worker hears.
    await tell(1)
    // Noticed, and not ended after a second: all in one turn, in which it can't be.
    while (faults.length === 0) clock.advance(250)
    t.match(faults, [{ message: /worker 1 of the relay can't be ended/ }])
    await until('it has ended', () => faults.length === 2)
    t.match(faults[1], { message: /has died: it did not respond/ })
    clock.advance(200)
    t.equal(ended, 0)
  })

  t.test('a drain ends the process when a worker is in such a call', async t => {
    const { program, tell } = mortalWorker(t, sleepInCall(8))
    let ended = 0
    const endProcess = (): void => void (ended += 1)
    const make = makeLinuxRelayWith({ workerProgram: program, endProcess })
    const { relay, faults } = relayFixture(t, make)
    await relay.apply([listenerSpec({})]) // After which the worker hears.
    await tell(1)
    let drained = false
    void relay.drain(0).then(() => (drained = true))
    await until('the process is ended', () => ended > 0 || drained, 12_000)
    t.strictSame([ended, drained], [1, false])
    t.match(faults, [{ message: /worker 1 of the relay can't be ended/ }])
  })

  t.test('a drain ends a worker that hangs', async t => {
    const { program, tell } = mortalWorker(t, 'for (;;);')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const { listen, relay } = relayFixture(t, make)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    await listen({ binds: [{ address: testHost, port }], endpoints: [endpoint] })
    const clients = Array.from({ length: 20 }, () => dial(t, port))
    let ended = 0
    for (const client of clients) {
      client.on('error', () => {})
      client.on('close', () => (ended += 1))
      client.write('hello')
    }
    const heard = clients.map(
      client => new Promise(resolve => client.once('data', resolve)),
    )
    await Promise.all(heard)
    await tell(2)
    const { reset } = await relay.drain(0)
    t.ok(reset > 0 && reset < 20, `${reset} of 20 by the one that goes on`)
    await until('all are reset', () => ended === 20)
  })

  t.test('workers share the limit of flows', async t => {
    const request = { limits: { udpMaxFlows: 9 } }
    const { listen, stats } = relayFixture(t, makeLinuxRelayWith({ workers: 3 }), request)
    const port = await freeTcpPort()
    const { endpoint } = await echoUdp(t)
    const binds = [{ address: testHost, port }]
    await listen({ protocol: 'UDP', binds, endpoints: [endpoint] })
    for (let i = 0; i < 40; i += 1) {
      t.equal(await (await udpClient(t, port)).ask('hello'), 'hello')
    }
    t.match(stats().counters, { accepted: 40, active: 9 })
  })
})
