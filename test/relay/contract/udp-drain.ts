import type { Test } from 'tap'
import type { DrainClose } from '../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { namedUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'

/** UDP endpoints that are drained: no new flows, and what becomes of those that there are. */
export const udpDrainContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make)
    const port = await freeUdpPort()
    const binds = [{ address: testHost, port }]
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    const listen = (close?: DrainClose, ...drained: (typeof a)[]) =>
      fixture.listen({
        protocol: 'UDP',
        binds,
        endpoints: [a.endpoint, b.endpoint],
        ...(close && {
          drained: drained.map(({ endpoint: { key } }) => ({ key, close })),
        }),
      })
    return { ...fixture, listen, port, a, b }
  }

  t.test('flows stay, and new ones go elsewhere', async t => {
    const { listen, port, a, b, stats } = await setUp(t)
    await listen('none', b)
    const old = await udpClient(t, port)
    t.equal(await old.ask('1'), 'a')
    await listen('idle', a)
    t.equal(await old.ask('2'), 'a')
    for (let i = 0; i < 3; i += 1) {
      const fresh = await udpClient(t, port)
      t.equal(await fresh.ask('3'), 'b')
    }
    await listen('none', a, b)
    t.equal(await old.ask('4'), 'a', 'also where all are drained')
    const late = await udpClient(t, port)
    t.equal(await Promise.race([late.ask('5'), old.ask('6')]), 'a')
    t.match(stats().counters.datagramsDropped, { 'no-endpoint': 1 })
    t.match(stats().endpoints, [{ active: 1 }, { active: 3 }])
    await listen()
    t.equal(await old.ask('7'), 'a')
  })

  t.test('they go to another endpoint at once if that is asked for', async t => {
    const { listen, port, a, b } = await setUp(t)
    await listen('none', b)
    const old = await udpClient(t, port)
    t.equal(await old.ask('1'), 'a')
    await listen('all', a)
    t.equal(await old.ask('2'), 'b')
    await listen('none', a)
    t.equal(await old.ask('3'), 'b')
  })
}
