import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import { endpoint, type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import {
  ask,
  dial,
  echoBackend,
  namedBackend,
  tcpBackend,
} from '../../support/tcp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** Who hears of it that endpoints of a listener have failed. */
export const allFailedContract = (t: Test, make: MakeRelay): void => {
  const name = 'test/service:port'

  t.test('it is told while the first client still tries, and once a second', async t => {
    const { listen, allFailed } = relayFixture(t, make, {
      limits: { dialLadder: [2500] },
    })
    const port = await freeTcpPort()
    const [one, other] = [await freeTcpPort(), await freeTcpPort()]
    const binds = [{ address: testHost, port }]
    const endpoints = [endpoint(testHost, one), endpoint(testHost, other)]
    await listen({ binds, endpoints })
    const began = performance.now()
    let ended = 0
    const answers = Array.from({ length: 50 }, async () => {
      await ask(port)
      ended += 1
    })
    await until('it is told', () => allFailed.length > 0)
    t.equal(ended, 0, 'all still try')
    await Promise.all(answers)
    const seconds = (performance.now() - began) / 1000
    t.ok(allFailed.length >= 2, 'again, as they go on failing')
    t.ok(allFailed.length <= seconds + 1, `${allFailed.length} times in ${seconds} s`)
    for (const each of allFailed) t.equal(each, name)
  })

  t.test('one that refuses counts at once, silence when the client gives up', async t => {
    const { listen, allFailed } = relayFixture(t, make, {
      limits: { dialLadder: [50, 50] },
    })
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const dead = endpoint(testHost, await freeTcpPort())
    const alive = await namedBackend(t, 'alive')
    await listen({ binds, endpoints: [dead, alive.endpoint] })
    for (let i = 0; i < 4; i += 1) t.equal((await ask(port)).text, 'alive')
    await until('it is told of the dead one', () => allFailed.length > 0)
    await sleep(1000)
    const before = allFailed.length
    const silent = await silentBackend(t)
    await listen({ binds, endpoints: [silent] })
    await ask(port)
    await until('it is told', () => allFailed.length === before + 1)
  })

  for (const holdMs of [0, 60_000]) {
    t.test(`all close early, clients wait ${holdMs} ms`, async t => {
      const { listen, allFailed, stats } = relayFixture(t, make)
      const port = await freeTcpPort()
      const binds = [{ address: testHost, port }]
      const end = (socket: Socket) => void socket.end()
      const bad = await Promise.all([1, 2].map(() => tcpBackend(t, end)))
      const alive = await namedBackend(t, 'alive')
      const [one, other] = bad.map(each => each.endpoint)
      if (one === undefined || other === undefined) throw new Error('two')
      const retry = { earlyClose: true, replay: 0, holdMs }
      await listen({ binds, endpoints: [one, other, alive.endpoint], retry })
      for (let i = 0; i < 3; i += 1) t.equal((await ask(port)).text, 'alive')
      await until('it is told', () => allFailed.length > 0)
      await listen({ binds, endpoints: [one, other], retry })
      const answer = ask(port)
      if (holdMs === 0) {
        t.match(await answer, { text: '', how: 'end' })
        return
      }
      await until('it still waits', () => stats().counters.held === 1)
      await listen({ binds, endpoints: [alive.endpoint], retry })
      t.match(await answer, { text: 'alive' })
    })
  }

  t.test('ends that are not early count at no time', async t => {
    const { listen, allFailed } = relayFixture(t, make)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const echo = await echoBackend(t)
    const end = await tcpBackend(t, socket => void socket.end())
    const retry = { earlyClose: true, replay: 0 }
    await listen({ binds, endpoints: [echo.endpoint], retry })
    const client = dial(t, port)
    client.end()
    await once(client.resume(), 'end')
    await listen({ binds, endpoints: [end.endpoint] })
    t.equal((await ask(port)).text, '', 'without the option')
    await sleep(50)
    t.strictSame(allFailed, [])
  })

  t.test('a UDP flow that all refuse', async t => {
    const { listen, allFailed } = relayFixture(t, make)
    const port = await freeUdpPort()
    const binds = [{ address: testHost, port }]
    const endpoints = [
      endpoint(testHost, await freeUdpPort()),
      endpoint(testHost, await freeUdpPort()),
    ]
    await listen({ protocol: 'UDP', binds, endpoints })
    const client = await udpClient(t, port)
    await until('it is told', async () => {
      client.send('x')
      return allFailed.length > 0
    })
    t.equal(allFailed[0], name)
  })
}
