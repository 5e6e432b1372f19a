import type { Test } from 'tap'
import type { RelayFront } from '../../../src/relay/relay.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { onLinux, withIpv6 } from '../../support/connection.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import { frontOf, type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { echoUdp, namedUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const [near, far] = ['127.0.0.11', '127.0.0.12']

/** What clients of different addresses of one UDP listener get. */
export const udpFrontsContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make, {
      nodeClients: { addresses: [near], cidrs: [] },
    })
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    const port = await freeUdpPort()
    const endpoints = [a.endpoint, b.endpoint]
    const front = (over: Partial<RelayFront>) =>
      fixture.listen({
        protocol: 'UDP',
        fronts: [frontOf([{ address: testHost, port }], over)],
        endpoints,
      })
    const client = (from: string) => udpClient(t, port, testHost, from)
    const dropped = () => fixture.stats().counters.datagramsDropped['not-allowed'] ?? 0
    return { ...fixture, a, b, port, front, client, dropped }
  }

  t.test('only clients of the source ranges get through', onLinux, async t => {
    const { front, client, dropped, stats, a, b } = await setUp(t)
    await front({ allowedClients: rangesOf(['127.0.0.11/32']) })
    t.match(await (await client(near)).ask('1'), /^[ab]$/)
    const outside = await client(far)
    outside.send('2')
    outside.send('3')
    await until('both are counted', () => dropped() === 2)
    t.equal(a.received.length + b.received.length, 1)
    t.strictSame(outside.received, [])
    t.match(stats().counters, { accepted: 1, active: 1 })
  })

  t.test('so over IPv6', withIpv6, async t => {
    const { listen, stats } = relayFixture(t, make)
    const { endpoint } = await echoUdp(t, '::1')
    const port = await freeUdpPort('::1')
    const allow = (...texts: string[]) =>
      listen({
        protocol: 'UDP',
        fronts: [
          frontOf([{ address: '::1', port }], { allowedClients: rangesOf(texts) }),
        ],
        endpoints: [endpoint],
      })
    await allow('::/64')
    const client = await udpClient(t, port, '::1')
    t.equal(await client.ask('1'), '1')
    await allow('2001:db8::/32')
    client.send('2')
    await until(
      'it is dropped',
      () => stats().counters.datagramsDropped['not-allowed'] === 1,
    )
    t.equal(stats().counters.active, 0, 'the flow that there was has ended')
  })

  t.test('clients on the node have a choice of their own', onLinux, async t => {
    const { front, client, dropped, a } = await setUp(t)
    await front({ endpoints: [], endpointsFromNode: [a.endpoint.key] })
    t.equal(await (await client(near)).ask('1'), 'a')
    const outside = await client(far)
    outside.send('2')
    await until('it is dropped', () => dropped() === 1)
    await front({ endpoints: [], endpointsFromNode: [] })
    t.equal(await (await client(near)).ask('3'), 'ECONNREFUSED')
  })

  t.test('who comes from the address it wrote to is on the node', onLinux, async t => {
    const { front, client, a, b } = await setUp(t)
    await front({ endpoints: [], endpointsFromNode: [a.endpoint.key] })
    t.equal(await (await client(testHost)).ask('1'), 'a')
    await front({ endpoints: [], endpointsFromNode: [b.endpoint.key] })
    t.equal(await (await client(testHost)).ask('2'), 'b')
  })

  t.test('a flow stays at an endpoint that serves and is none for new ones', async t => {
    const { front, client, stats, a, b } = await setUp(t)
    await front({ endpoints: [a.endpoint.key] })
    const one = await client(testHost)
    t.equal(await one.ask('1'), 'a')
    await front({ endpoints: 'all' })
    t.equal(await one.ask('2'), 'a', 'it stays while it may')
    await front({ endpoints: [b.endpoint.key] })
    t.equal(await one.ask('3'), 'a', 'and when others get another one')
    t.equal(await (await client(testHost)).ask('4'), 'b')
    t.match(stats().counters, { accepted: 2, active: 2 })
  })
}
