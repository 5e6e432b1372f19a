import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import { endpoint, type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import {
  namedUdp,
  type Reply,
  silentUdp,
  type UdpBackend,
  udpBackend,
} from '../../support/udp-backend.ts'
import { clientAddresses, udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const retry = { earlyClose: false, replay: 0, expectsReplies: true }

/** Milliseconds in which an endpoint that serves has answered on a busy machine too. */
const answerMs = 2500

const setUp = async (t: Test, make: MakeRelay, udpReplyTimeout: number) => {
  const fixture = relayFixture(t, make, { limits: { udpReplyTimeout } })
  const port = await freeUdpPort()
  const binds = [{ address: testHost, port }]
  let used = 0
  const clientAddress = () => clientAddresses[(used += 1) % clientAddresses.length]
  const listen = (endpoints: readonly RelayEndpoint[], affinityMs = 0) =>
    fixture.listen({ protocol: 'UDP', binds, endpoints, affinityMs, retry })
  /** So many flows, one after the other, each of another client, by whose clients no answer is waited for. */
  const send = async (
    flows: number,
    ...servers: readonly UdpBackend[]
  ): Promise<void> => {
    const received = (): number =>
      servers.reduce((sum, server) => sum + server.received.length, 0)
    for (let i = 0; i < flows; i += 1) {
      const before = received()
      const client = await udpClient(t, port, testHost, clientAddress())
      client.send('hello')
      await until('it has come to one of them', () => received() > before)
    }
  }
  /** Who answered each of so many flows. */
  const ask = async (flows: number): Promise<string[]> => {
    const clients = Array.from({ length: flows }, () => udpClient(t, port))
    return Promise.all(clients.map(async client => (await client).ask('hello')))
  }
  const isCoolingDown = (which = 0): boolean =>
    fixture.stats().endpoints[which]?.coolingDown ?? false
  return { ...fixture, port, clientAddress, listen, send, ask, isCoolingDown }
}

/** Endpoints that don't answer, where `retry` says that they are to. */
export const udpSilenceContract = (t: Test, make: MakeRelay): void => {
  t.test('an endpoint that answers no flow is passed over while others do', async t => {
    const { listen, send, ask, isCoolingDown, stats } = await setUp(t, make, answerMs)
    const silent = await silentUdp(t)
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    await listen([silent.endpoint, a.endpoint, b.endpoint])
    await send(6, silent, a, b)
    await until('they have ended', () => stats().endpoints[0]?.active === 0)
    t.equal(isCoolingDown(), false, 'not after two')
    await send(3, silent, a, b)
    await until('it rests after three', () => isCoolingDown())
    t.equal(silent.received.length, 3)
    t.equal((await ask(12)).toSorted().join(''), 'aaaaaabbbbbb', 'others take its turns')
    t.equal(silent.received.length, 3)
    t.match(stats().endpoints, [{ failures: 1 }, { failures: 0 }, { failures: 0 }])
  })

  t.test('one client that has no reply takes an endpoint from no others', async t => {
    const all = await setUp(t, make, 300)
    const { listen, isCoolingDown, ask, stats, port, clientAddress } = all
    const deaf: Reply[] = []
    const server = (name: string): Promise<UdpBackend> =>
      udpBackend(t, (message, reply) =>
        String(message) === 'garbage' ? void deaf.push(reply) : reply(name),
      )
    const [a, b] = [await server('a'), await server('b')]
    await listen([a.endpoint, b.endpoint])
    const good = await ask(1)
    const bad = clientAddress()
    for (let i = 0; i < 6; i += 1) {
      const client = await udpClient(t, port, testHost, bad)
      client.send('garbage')
      await until('it has come', () => deaf.length > i)
      good.push(...(await ask(1)))
    }
    t.equal(new Set(good).size, 1, 'the others’ turns are all at one')
    await until('the flows have ended', () => stats().counters.active === good.length)
    good.push(...(await ask(8)))
    t.equal(good.slice(-8).toSorted().join(''), 'aaaabbbb')
    t.notOk(isCoolingDown(0) || isCoolingDown(1))
  })

  t.test('traffic that no endpoint answers goes to all of them in turn', async t => {
    const { listen, send, stats } = await setUp(t, make, 200)
    const silent = [await silentUdp(t), await silentUdp(t), await silentUdp(t)]
    await listen(silent.map(one => one.endpoint))
    for (const flows of [4, 8]) {
      await send(12, ...silent)
      t.strictSame(
        silent.map(({ received }) => received.length),
        [flows, flows, flows],
      )
      await until('the flows have ended', () => stats().counters.active === 0)
      t.notOk(
        stats().endpoints.some(
          ({ coolingDown, failures }) => coolingDown || failures > 0,
        ),
      )
    }
  })

  t.test('one that refused is tried by one flow after its rest', async t => {
    const { listen, ask, send, isCoolingDown, stats } = await setUp(t, make, 5000)
    const dead = endpoint(testHost, await freeUdpPort())
    const a = await namedUdp(t, 'a')
    await listen([dead, a.endpoint])
    const failures = (): number => stats().endpoints[0]?.failures ?? 0
    t.strictSame(await ask(2), ['a', 'a'])
    t.equal(failures(), 1)
    await until('its rest is over', () => !isCoolingDown())
    t.strictSame(await ask(1), ['a'])
    await until('it was tried', async () => (await ask(1)).length > 0 && failures() === 2)
    const start = performance.now()
    while (performance.now() - start < 1200) {
      t.ok(isCoolingDown(), 'it rests for twice as long')
      t.strictSame(await ask(1), ['a'])
      await sleep(100)
    }
    t.equal(failures(), 2)
    const replies: Reply[] = []
    const back = await udpBackend(
      t,
      (_, reply) => void replies.push(reply),
      testHost,
      dead.port,
    )
    await until('its rest is over', () => !isCoolingDown())
    await send(8, back, a)
    t.equal(back.received.length, 1, 'the others wait for its reply')
    replies[0]?.('back')
    await until('it was heard', () => !isCoolingDown())
    await send(8, back, a)
    t.equal(back.received.length, 5, 'then it has its turns')
  })
}

/** A rest of 10 s: for one relay. */
export const udpReturnContract = (t: Test, make: MakeRelay): void => {
  t.test('one that was silent comes back by one flow', async t => {
    const { listen, send, isCoolingDown } = await setUp(t, make, answerMs)
    const replies: Reply[] = []
    const back = await udpBackend(t, (_, reply) => void replies.push(reply))
    const a = await namedUdp(t, 'a')
    await listen([back.endpoint, a.endpoint])
    await send(6, back, a)
    await until('it rests', () => isCoolingDown())
    const start = performance.now()
    await until('its rest is over', () => !isCoolingDown())
    t.ok(performance.now() - start > 9000)
    await send(8, back, a)
    t.equal(back.received.length, 4, 'one tries it')
    replies[3]?.('back')
    await until('it was heard', () => !isCoolingDown())
    await send(8, back, a)
    t.equal(back.received.length, 8, 'then it has its turns')
  })
}
