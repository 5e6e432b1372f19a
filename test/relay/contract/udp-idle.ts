import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayLimits, RelayListener } from '../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  listenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { namedUdp, silentUdp, udpBackend } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

/** How many milliseconds from now on the flows live. */
const lifetime = async (flows: () => number): Promise<number> => {
  const start = performance.now()
  await until('the flow has ended', () => flows() === 0)
  return performance.now() - start
}

const answersAfter = (t: Test, ms: number) =>
  udpBackend(t, (_message, reply) => void sleep(ms).then(() => reply('at last')))

/**
 * How long flows live. The times are lower bounds and real: a relay that is late is
 * right, one that is early is not.
 */
export const udpIdleContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, limits: Partial<RelayLimits>) => {
    const fixture = relayFixture(t, make, { limits })
    const port = await freeUdpPort()
    const binds = [{ address: testHost, port }]
    const flows = (): number => fixture.stats().counters.active
    const listen = (spec: Partial<RelayListener>): Promise<void> =>
      fixture.listen({ protocol: 'UDP', binds, ...spec })
    return { ...fixture, listen, port, flows }
  }

  t.test('a flow that nobody answers ends after the first, short limit', async t => {
    const limits = { udpReplyTimeout: 300, udpTimeout: 60_000 }
    const { listen, port, flows, relay } = await setUp(t, limits)
    const silent = await silentUdp(t)
    await listen({ endpoints: [silent.endpoint] })
    const client = await udpClient(t, port)
    // Whatever time of the relay's own ticking the last datagram hits.
    for (const ms of [0, 30, 60, 90]) {
      client.send('anybody?')
      await until('there is a flow', () => flows() === 1)
      await sleep(ms)
      client.send('anybody?')
      t.ok((await lifetime(flows)) > 290, `and not before, ${ms} ms after the first`)
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    }
  })

  t.test('a flow that was answered ends after the second limit', async t => {
    const { listen, port, flows, relay, stats } = await setUp(t, {
      udpReplyTimeout: 200,
      udpTimeout: 900,
    })
    const a = await namedUdp(t, 'a')
    await listen({ endpoints: [a.endpoint] })
    const client = await udpClient(t, port)
    const start = performance.now()
    await client.ask('1')
    t.ok((await lifetime(flows)) > 880)
    t.ok(performance.now() - start >= 900)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    t.match(stats().endpoints, [{ active: 0 }])
    t.equal(await client.ask('2'), 'a', 'the next datagram opens another')
    t.equal(stats().counters.accepted, 2)
  })

  t.test('a listener has a limit of its own, which an order changes', async t => {
    const limits = { udpReplyTimeout: 200, udpTimeout: 200 }
    const { listen, port, relay, flows } = await setUp(t, limits)
    const [silent, other, name] = [await silentUdp(t), await freeUdpPort(), 'test/other']
    const { endpoint } = await namedUdp(t, 'a')
    const here = [{ address: testHost, port }]
    const both = (idleMs: number) => [
      listenerSpec({
        protocol: 'UDP',
        binds: here,
        udp: { idleMs },
        endpoints: [silent.endpoint],
      }),
      listenerSpec({
        id: 'other',
        name,
        protocol: 'UDP',
        binds: [{ address: testHost, port: other }],
        endpoints: [endpoint],
      }),
    ]
    await relay.apply(both(60_000))
    const [mine, theirs] = [await udpClient(t, port), await udpClient(t, other)]
    mine.send('anybody?')
    await until('it has come', () => silent.received.length === 1)
    t.equal(await theirs.ask('?'), 'a')
    const ofOther = (): number =>
      [...relay.stats().listeners].find(({ id }) => id === 'other')?.counters.active ?? -1
    await until('a younger one with the limit of all has ended', () => ofOther() === 0)
    t.equal(flows(), 1, 'the older one is there')
    await relay.apply(both(300))
    await until('it ends by the new limit', () => flows() === 0)
    await listen({ endpoints: [endpoint], udp: { idleMs: 900 } })
    const start = performance.now()
    t.equal(await mine.ask('?'), 'a')
    await until('after a reply it ends, too', () => flows() === 0)
    t.ok(performance.now() - start >= 900)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('datagrams of the client alone keep a flow open', async t => {
    // On a busy machine there may be much more than 100 ms between two.
    const { listen, port, flows, stats } = await setUp(t, { udpReplyTimeout: 1500 })
    const silent = await silentUdp(t)
    await listen({ endpoints: [silent.endpoint] })
    const client = await udpClient(t, port)
    const start = performance.now()
    let last = start
    while (last - start < 2000) {
      await sleep(100)
      last = performance.now()
      client.send('still here')
    }
    t.match(stats().counters, { accepted: 1, active: 1 })
    await until('the flow has ended', () => flows() === 0)
    const ms = performance.now() - last
    t.ok(ms > 1480, `the limit counts from the last one: ${ms} ms`)
  })

  t.test('datagrams of the endpoint alone keep a flow open', async t => {
    const { listen, port, stats } = await setUp(t, {
      udpReplyTimeout: 1500,
      udpTimeout: 1500,
    })
    const feed = await udpBackend(t, (_message, reply) => {
      void (async () => {
        for (let i = 0; i < 22; i += 1) {
          reply(`${i}`)
          await sleep(100)
        }
      })()
    })
    await listen({ endpoints: [feed.endpoint] })
    const client = await udpClient(t, port)
    client.send('subscribe')
    await until('all came', () => client.received.length === 22)
    t.match(stats().counters, { accepted: 1, active: 1 })
  })

  t.test('a slow answer within the first limit reaches the client', async t => {
    const { listen, port, stats } = await setUp(t, {
      udpReplyTimeout: 1000,
      udpTimeout: 200,
    })
    const slow = await answersAfter(t, 900)
    await listen({ endpoints: [slow.endpoint] })
    const client = await udpClient(t, port)
    t.equal(await client.ask('take your time'), 'at last')
    t.match(stats().counters, { accepted: 1, datagramsToClient: 1 })
  })

  t.test('an answer after the limit is not passed on', async t => {
    const { listen, port, stats, flows } = await setUp(t, { udpReplyTimeout: 200 })
    const slow = await answersAfter(t, 800)
    await listen({ endpoints: [slow.endpoint] })
    const client = await udpClient(t, port)
    client.send('take your time')
    await until('there is a flow', () => flows() === 1)
    await lifetime(flows)
    await sleep(900)
    t.strictSame(client.received, [])
    t.equal(stats().counters.datagramsToClient, 0)
  })
}
