import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { RelayName } from '../../../src/relay/choose-relay.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { listenerSpec } from '../../support/relay-fixture.ts'
import {
  ask,
  dial,
  namedBackend,
  namedEcho,
  tcpBackend,
} from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'
import { compiled, freePorts, runs, supervised } from './fixture.ts'

const lateWords = new URL('../../support/late-words.mjs', import.meta.url)

const killNow = (pid = 0): void => void process.kill(pid, 'SIGKILL')

const killedUnderLoad = (
  t: Test,
  kind: RelayName,
  skip: string | false = false,
): void => {
  t.test(
    `${kind}, killed under load: served again, and totals go on`,
    { skip },
    async t => {
      const { relay, faults, gone, binds, listeners } = supervised(t, { relay: kind })
      const port = await freeTcpPort()
      const { endpoint } = await namedBackend(t, 'a')
      const bind = { address: testHost, port }
      await relay.apply([listenerSpec({ binds: [bind], endpoints: [endpoint] })])
      const asking = { on: true, served: 0 }
      const clients = Array.from({ length: 8 }, async () => {
        while (asking.on) if ((await ask(port)).text === 'a') asking.served += 1
      })
      t.teardown(() => (asking.on = false))
      await until('load', () => asking.served > 50)
      const accepted = async () => (await listeners())[0]?.counters.accepted ?? 0
      const before = await accepted()
      t.ok(before > 50)
      const first = relay.pid
      killNow(first)
      await until('its death is known', () => faults.length === 1)
      t.match(await listeners(), [{ id: 'test', counters: { active: 0 } }])
      t.ok((await accepted()) >= before, 'never less than was told')
      await until('another has its place', () => gone.length === 3)
      // What clients have from before may come to them later.
      const servedThen = asking.served + clients.length
      await until('served again', () => asking.served > servedThen)
      asking.on = false
      await Promise.all(clients)
      t.match(
        faults[0],
        /^the data plane was killed by SIGKILL; it had run for .* at once$/,
      )
      t.not(relay.pid, first)
      t.strictSame(
        binds.map(({ state }) => state),
        ['listening', 'binding', 'listening'],
      )
      t.strictSame([...new Set(gone)], ['', 'was killed by SIGKILL'])
      t.equal(gone.at(-1), '')
      t.equal((await relay.stats()).restarts, 1)
      t.ok((await accepted()) > before)
    },
  )
}

/** Of connections since the last look at the figures nothing is known. */
const lostLines = (t: Test, kind: RelayName, skip: string | false = false): void => {
  t.test(`${kind}, killed: lines of the access log are lost`, { skip }, async t => {
    const { relay, faults, accessBatches } = supervised(t, { relay: kind })
    const port = await freeTcpPort()
    const { endpoint } = await namedEcho(t, 'hello')
    const binds = [{ address: testHost, port }]
    const accessLog = { format: 'json', to: 'stdout', route: 'db' } as const
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint], accessLog })])
    const clients = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const client = dial(t, port)
        client.on('error', () => {})
        await once(client, 'data')
        return client
      }),
    )
    clients[0]?.destroy()
    const name = 'test/service:port'
    await until('its line is here', () => accessBatches.length === 1)
    t.match(accessBatches, [{ listener: name, to: 'stdout', lines: 1, lost: 0 }])
    await relay.stats()
    killNow(relay.pid)
    await until('its death is known', () => faults.length === 1)
    await until('they are counted', () => accessBatches.length === 2)
    t.match(accessBatches[1], { listener: name, lines: 0, lost: 3 })
  })
}

/**
 * The kernel ends the connections of a process that is gone. A FIN would make a part of an
 * answer, or of an upload, look like all of it.
 */
const killedInMidAnswer = (t: Test): void => {
  const skip = linuxRelaySkip()
  t.test('killed in mid-answer: both sides are reset', { skip }, async t => {
    const { relay } = supervised(t, { relay: 'linux' })
    const port = await freeTcpPort()
    const backend = await tcpBackend(t, socket => {
      socket.write('the first half of ')
      socket.resume()
    })
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [backend.endpoint] })])
    const clients = Array.from({ length: 4 }, () => dial(t, port))
    const ends = clients.map(client => howItEnds(client))
    for (const client of clients) {
      client.write('a question')
      await once(client, 'data')
      client.resume()
    }
    // Nothing is unread, nor on its way.
    await until('all of it has come', () =>
      [...backend.sockets].every(({ bytesRead }) => bytesRead === 'a question'.length),
    )
    ends.push(...[...backend.sockets].map(socket => howItEnds(socket)))
    killNow(relay.pid)
    t.strictSame(
      [ends.length, ...(await Promise.all(ends))],
      [8, ...Array(8).fill('ECONNRESET')],
    )
  })
}

/** An error's code, or `end`. */
const howItEnds = (socket: Socket): Promise<string> =>
  new Promise(resolve => {
    socket.on('end', () => resolve('end'))
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
  })

/** What becomes of it when the data plane dies, hangs or can't be started. */
t.test('deaths of a data plane', async t => {
  killedUnderLoad(t, 'portable')
  killedUnderLoad(t, 'linux', linuxRelaySkip())
  lostLines(t, 'portable')
  lostLines(t, 'linux', linuxRelaySkip())
  killedInMidAnswer(t)

  t.test('killed in the middle of apply, the call ends with the next one', async t => {
    const { relay, binds, listeners } = supervised(t)
    const { endpoint } = await namedBackend(t, 'a')
    const ports = await freePorts(300)
    const wanted = ports.map(port =>
      listenerSpec({
        id: `${port}`,
        binds: [{ address: testHost, port }],
        endpoints: [endpoint],
      }),
    )
    await relay.apply(wanted.slice(0, 10))
    const applied = relay.apply(wanted)
    killNow(relay.pid)
    await applied
    const states = (await listeners()).flatMap(one => one.binds.map(({ state }) => state))
    t.strictSame([states.length, ...new Set(states)], [300, 'listening'])
    t.ok(binds.some(({ state }) => state === 'binding'))
    t.equal((await ask(ports[299] ?? 0)).text, 'a')
    await relay.apply(wanted.slice(299))
    t.equal((await ask(ports[0] ?? 0)).how, 'ECONNREFUSED')
  })

  t.test('while there is none, figures are told without waiting', async t => {
    const clock = new FakeClock()
    const { relay, faults, listeners } = supervised(t, { clock })
    const { endpoint } = await namedBackend(t, 'a')
    const binds = [{ address: testHost, port: await freeTcpPort() }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
    killNow(relay.pid)
    // The clock stands still: it is not started again.
    await until('its death is known', () => faults.length === 1)
    t.match(await listeners(), [{ id: 'test', binds: [{ state: 'binding' }] }])
    t.match(await relay.stats(), { fds: { used: 0, limit: 20_000 }, restarts: 1 })
    const drained = relay.drain(1000)
    t.strictSame(await drained, { reset: 0 })
  })

  t.test('one that hangs is killed and replaced', async t => {
    const clock = new FakeClock()
    const { relay, faults } = supervised(t, { clock })
    const port = await freeTcpPort()
    const { endpoint } = await namedBackend(t, 'a')
    const binds = [{ address: testHost, port }]
    await relay.apply([listenerSpec({ binds, endpoints: [endpoint] })])
    for (let second = 0; second < 30; second += 1) {
      clock.advance(1000)
      // Its answer to the ping comes before this one.
      await relay.stats()
    }
    t.strictSame(faults, [], 'one that answers is left alone')
    const pid = relay.pid ?? 0
    process.kill(pid, 'SIGSTOP')
    for (let second = 0; second < 10; second += 1) clock.advance(1000)
    t.equal(runs(pid), true)
    clock.advance(1000)
    await until('its death is known', () => faults.length === 1)
    t.match(faults[0], 'was killed: it did not respond for 10 s')
    await until('served again', async () => {
      clock.advance(1)
      return (await ask(port)).text === 'a'
    })
    t.equal(runs(pid), false)
  })

  t.test('one that is there long after it was killed ends this process', async t => {
    const clock = new FakeClock()
    let ended = 0
    const endProcess = (): void => void (ended += 1)
    const { relay, faults } = supervised(t, { clock, endProcess })
    await relay.chosen
    process.kill(relay.pid ?? 0, 'SIGSTOP')
    // Its exit can't be heard before this turn is over.
    for (let second = 0; second < 20; second += 1) clock.advance(1000)
    t.strictSame([ended, faults], [0, []])
    clock.advance(1000)
    t.equal(ended, 0, 'not before the fault can have been read')
    clock.advance(200)
    t.equal(ended, 1)
    t.match(faults[0], /was killed \(it did not respond for 10 s\) and has not ended/)
    await until('its death is known', () => faults.length === 2)
  })

  t.test('what one tells after its death is no news of how it is', async t => {
    const go = join(t.testdir({}), 'go')
    const env = { PATH: process.env['PATH'], GO: go }
    const program = { file: lateWords, execArgv: [], env }
    const { relay, faults, binds, pauses, hangs } = supervised(t, { program })
    await t.rejects(relay.chosen, { message: 'the data plane ended with code 0' })
    writeFileSync(go, '')
    await until('its last words', () => faults.length > 0)
    t.strictSame(faults, ['its last words'])
    t.strictSame([binds, pauses, hangs], [[], [], []])
  })

  t.test('a hanging one holds up nobody who asks for figures', async t => {
    const clock = new FakeClock()
    const { relay, listeners } = supervised(t, { clock })
    await relay.apply([listenerSpec({})])
    t.equal((await listeners()).length, 1)
    process.kill(relay.pid ?? 0, 'SIGSTOP')
    const asked = listeners()
    await new Promise(setImmediate)
    clock.advance(3000)
    t.match(await asked, [{ id: 'test' }], 'the last ones known')
    killNow(relay.pid)
  })

  t.test('one that cannot be started is tried again with growing pauses', async t => {
    const clock = new FakeClock()
    const execArgv: string[] = []
    const random = () => 0.5
    const program = { ...compiled(), execArgv }
    let lost = 0
    const { relay, faults, gone, listeners } = supervised(t, {
      clock,
      random,
      program,
      lost: () => (lost += 1),
    })
    await relay.chosen
    execArgv.push('--no-such-flag')
    killNow(relay.pid)
    const pauses = ['at once', 'in 188 ms', 'in 375 ms']
    await until('its death is known', () => faults.length === 1)
    const applied = relay.apply([listenerSpec({})])
    await until('the next start is waited for', () => clock.waiting === 1)
    clock.advance(0)
    for (const [i, pause] of pauses.slice(1).entries()) {
      await until(`failure ${i + 1}`, () => faults.length === i + 2)
      t.match(faults[i + 1], `ended with code 9; it had run for 0.`)
      t.match(faults[i + 1], `it is started again ${pause}`)
      t.equal(lost, i + 2, 'all of it is to be applied again')
      await until('the next start is waited for', () => clock.waiting === 1)
      clock.advance(Number(/\d+/.exec(pause)?.[0]) + 1)
    }
    t.match(await listeners(), [{ id: 'test' }])
    t.strictSame(gone.slice(-3), [
      'was killed by SIGKILL',
      'ended with code 9',
      'ended with code 9',
    ])
    await relay.drain(1000)
    await applied
    t.equal(relay.pid, undefined)
  })
})
