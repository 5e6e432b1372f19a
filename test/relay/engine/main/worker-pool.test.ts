import { once } from 'node:events'
import type { Socket } from 'node:net'
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { freeTcpPort, testHost } from '../../../support/ports.ts'
import {
  carryingFds,
  listenerSpec,
  relayFixture,
} from '../../../support/relay-fixture.ts'
import { makeLinuxRelayWith, mortalWorker } from '../../../support/linux-relay.ts'
import { dial, echoBackend } from '../../../support/tcp-backend.ts'
import { echoUdp } from '../../../support/udp-backend.ts'
import { udpClient } from '../../../support/udp-client.ts'
import { typescript } from '../../../support/typescript.ts'
import { until } from '../../../support/until.ts'

const at = (port: number) => [{ address: testHost, port }]

const setUp = (t: Test, workers: number) => {
  const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
  const make = makeLinuxRelayWith({ workers, workerProgram: program })
  const fixture = relayFixture(t, make)
  const restarts = (): number[] =>
    (fixture.relay.stats().workers ?? []).map(worker => worker.restarts)
  const kill = async (thread: number): Promise<void> => {
    const before = restarts()[thread - 1] ?? 0
    await tell(thread)
    await until('it is replaced', () => restarts()[thread - 1] === before + 1)
  }
  return { ...fixture, kill, restarts }
}

/** Sends `text` and waits for its echo, or for the end. */
const echoed = async (socket: Socket, text: string): Promise<string> => {
  let heard = ''
  const heardAll = new Promise<string>(resolve => {
    socket.on('data', data => {
      heard += String(data)
      if (heard.length >= text.length) resolve(heard)
    })
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
    socket.once('close', () => resolve('closed'))
  })
  socket.write(text)
  const answer = await heardAll
  socket.removeAllListeners('data')
  return answer
}

/** Serves nobody, and says by which orders it has been given which of two addresses. */
const orderEcho = `
  import { parentPort } from 'node:worker_threads'
  const post = report => parentPort.postMessage(report)
  const tell = text => {
    const faults = [['', new Error(text)]]
    post({ kind: 'news', news: { states: [], records: [], faults, accessLines: [], lost: 0 } })
  }
  post({ kind: 'ready', self: null })
  parentPort.on('message', orders => {
    for (const { kind, id, call, slot, bind, spec } of orders) {
      const binds = bind ? [bind] : spec ? spec.fronts.flatMap(front => front.binds) : []
      const text = [kind, slot, ...binds.map(({ address }) => address)].join(' ')
      if (binds.length > 0) tell(text)
      if (kind === 'call') post({ kind: 'done', id, result: call.kind === 'kill' ? 0 : null })
      if (kind === 'exit') process.exit()
    }
  })`

/** Threads that die and are replaced. */
t.test('workers', { skip: linuxRelaySkip() }, async t => {
  t.test('a worker that dies is replaced, and its listeners serve', async t => {
    const { listen, kill, relay, faults, stats } = setUp(t, 1)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    await listen({ binds: at(port), endpoints: [endpoint] })
    const old = dial(t, port)
    t.equal(await echoed(old, 'one'), 'one')
    t.equal(stats().counters.active, 1)
    const reset = once(old, 'error')
    await kill(1)
    t.match(await reset, [{ code: 'ECONNRESET' }], 'its connections end')
    t.match(faults, [{ message: /worker 1 .*told to die/ }])
    t.match(stats().counters, { accepted: 1, active: 0 }, 'figures go on')
    t.equal(stats().endpoints[0]?.active, 0)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    t.equal(await echoed(dial(t, port), 'two'), 'two')
    t.match(stats().counters, { accepted: 2, active: 1 })
  })

  t.test('who comes while there is no worker waits and is served', async t => {
    const { listen, kill } = setUp(t, 1)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    await listen({ binds: at(port), endpoints: [endpoint] })
    const heard: Promise<string>[] = []
    const killed = kill(1)
    let over = false
    void killed.then(() => (over = true))
    // The queue at the moment of death can't be seen from outside: one comes every tick.
    await until('it is over', () => {
      heard.push(echoed(dial(t, port), 'hello'))
      return over
    })
    const answers = await Promise.all(heard)
    const lost = answers.filter(answer => answer !== 'hello' && answer !== 'ECONNRESET')
    t.strictSame(lost, [], 'nobody is refused')
    t.equal(answers.at(-1), 'hello')
  })

  t.test('two workers share clients, and live and die together', async t => {
    const { listen, kill, restarts, stats } = setUp(t, 2)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    await listen({ binds: at(port), endpoints: [endpoint] })
    const clients = Array.from({ length: 40 }, () => dial(t, port))
    await Promise.all(clients.map(client => echoed(client, 'one')))
    for (const client of clients) client.on('error', () => {})
    await kill(1)
    t.strictSame(restarts(), [1, 0])
    await until('all are reset', () => clients.every(client => client.destroyed))
    t.equal(stats().counters.active, 0)
    const more = Array.from({ length: 40 }, () => echoed(dial(t, port), 'x'))
    t.strictSame(new Set(await Promise.all(more)), new Set(['x']))
  })

  t.test('UDP is served again, as are listeners that came and went since', async t => {
    const { relay, kill } = setUp(t, 2)
    const [port, other, gone] = [
      await freeTcpPort(),
      await freeTcpPort(),
      await freeTcpPort(),
    ]
    const { endpoint } = await echoUdp(t)
    const spec = (id: string, there: number) =>
      listenerSpec({ id, protocol: 'UDP', binds: at(there), endpoints: [endpoint] })
    const stays = spec('stays', port)
    await relay.apply([stays, spec('gone', gone)])
    const killed = kill(2)
    await relay.apply([stays, spec('comes', other)])
    await killed
    for (const there of [port, other]) {
      const clients = await Promise.all(
        Array.from({ length: 20 }, () => udpClient(t, there)),
      )
      const answers = await Promise.all(clients.map(client => client.ask('hello')))
      t.strictSame(new Set(answers), new Set(['hello']))
    }
    const client = await udpClient(t, gone)
    t.equal(await client.ask('anybody?'), 'ECONNREFUSED')
  })

  t.test('an address is let go before its listener is known without it', async t => {
    const file = new URL(`data:text/javascript,${encodeURIComponent(orderEcho)}`)
    const make = makeLinuxRelayWith({ workerProgram: { file, execArgv: [] } })
    const { relay, faults } = relayFixture(t, make)
    const port = await freeTcpPort()
    const { endpoint } = await echoBackend(t)
    const spec = (id: string, address: string) =>
      listenerSpec({ id, binds: [{ address, port }], endpoints: [endpoint] })
    const [one, other] = ['127.252.1.1', '127.252.1.2']
    await relay.apply([spec('a', one), spec('b', other)])
    faults.length = 0
    await relay.apply([spec('a', other), spec('b', one)])
    const orders = faults.map(({ message }) => message)
    t.strictSame(orders, [
      `release 0 ${one}`,
      `listener 0 ${other}`,
      `release 1 ${other}`,
      `listener 1 ${one}`,
      `open 0 ${other}`,
      `open 1 ${one}`,
    ])
  })

  t.test('a worker that can not start holds up nobody', async t => {
    const workerProgram = {
      file: new URL('data:text/javascript,throw new Error("no")'),
      execArgv: [],
    }
    const make = makeLinuxRelayWith({ workerProgram })
    const { listen, faults, stats, relay } = relayFixture(t, make)
    await listen({ binds: at(await freeTcpPort()), endpoints: [] })
    await until('it was tried again', () => faults.length > 2)
    t.match(faults[0], { message: /has died: no/ })
    t.ok(faults.length < 5, 'not without a pause')
    t.strictSame(stats().binds, [
      { bind: stats().binds[0]?.bind, state: 'closed', reason: 'no endpoints' },
    ])
    t.strictSame(await relay.drain(0), { reset: 0 })
  })

  t.test('a drain leaves no thread and no descriptor', async t => {
    const before = readdirSync('/proc/self/fd').length
    const { listen, relay } = setUp(t, 2)
    const port = await freeTcpPort()
    const { endpoint } = await echoUdp(t)
    await listen({ protocol: 'UDP', binds: at(port), endpoints: [endpoint] })
    await (await udpClient(t, port)).ask('hello')
    await relay.drain(0)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    // The backend, the client, and the channel's.
    const more = readdirSync('/proc/self/fd').length - before
    t.ok(more <= 2, `${more} more are open`)
  })

  t.test('process.exit does not wait for threads that wait', async t => {
    const source = (path: string): string =>
      new URL(`../../../../src/${path}`, import.meta.url).href
    const code = `
      const { RelayEngine } = await import('${source('relay/engine/relay-engine.ts')}')
      const { linuxLayer } = await import('${source('relay/sockets/linux/linux-layer.ts')}')
      const { systemClock: clock } = await import('${source('util/clock.ts')}')
      const limits = { reservedFds: 64, dialLadder: [250] }
      const observer = { wants: () => false, fault: console.error }
      const workers = 2
      const openFileLimit = 1000
      const layer = linuxLayer(limits)
      const deps = { clock, limits, observer, workers, openFileLimit, layer }
      await new RelayEngine(deps).apply([])
      setTimeout(() => process.exit(7), 100)`
    const stdio = 'inherit' as const
    const child = spawn(
      process.execPath,
      [typescript, '--input-type=module', '-e', code],
      { stdio },
    )
    t.teardown(() => child.kill('SIGKILL'))
    const ended = once(child, 'exit') as Promise<[number]>
    const soon = sleep(5000, 'it hangs', { ref: false })
    t.strictSame(await Promise.race([ended, soon]), [7, null])
  })
})
