import { once } from 'node:events'
import type { Test } from 'tap'
import type { ClientLists } from '../../../src/model/traffic.ts'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { onLinux, withIpv6 } from '../../support/connection.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  type ListenerSpec,
  listenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { ask, dial, namedBackend } from '../../support/tcp-backend.ts'
import { echoUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const [near, far, other] = ['127.0.0.11', '127.0.0.12', '127.0.1.1']

const lists = (deny: string[] | undefined, allow?: string[]): ClientLists => ({
  ...(deny && { deny: [rangesOf(deny)] }),
  ...(allow && { allow: [rangesOf(allow)] }),
})

/** Addresses of their own, in no order. */
const many = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => {
    const n = (i * 7919) % count
    return `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`
  })

/** Clients that a listener allows and denies. */
export const clientListsContract = (t: Test, make: MakeRelay): void => {
  const setUp = async (t: Test, host = testHost) => {
    const fixture = relayFixture(t, make)
    const { endpoint } = await namedBackend(t, 'a', host)
    const port = await freeTcpPort(host)
    const listen = (clients?: ClientLists) =>
      fixture.listen({
        binds: [{ address: host, port }],
        endpoints: [endpoint],
        ...(clients && { clients }),
      })
    const from = async (local: string) => (await ask(port, host, local)).how
    return { ...fixture, listen, from, port }
  }

  t.test('probers are closed in order, before everything else', onLinux, async t => {
    const { listen, relay, from, records, stats, port } = await setUp(t)
    await listen({ ...lists([near]), probers: [rangesOf([near])] })
    t.equal((await ask(port, testHost, near)).how, 'end')
    t.equal(await from(far), 'end')
    const { counters, endpoints } = stats()
    t.match(counters, { accepted: 1, dialAttempts: 1, failed: {} })
    t.match(endpoints, [{ failures: 0 }])
    await until('the other one is recorded', () => records.length === 1)
    // Of a relay's own limits a prober takes nothing, and it says no header.
    const { endpoint } = await namedBackend(t, 'b')
    const another = await freeTcpPort()
    const spec: ListenerSpec = {
      binds: [{ address: testHost, port: another }],
      endpoints: [endpoint],
      limits: { routeConnections: 1, routeRate: 1 },
      acceptProxy: rangesOf(['127.0.0.0/8']),
      clients: { probers: [rangesOf([near])] },
    }
    await relay.apply([listenerSpec(spec)])
    for (let i = 0; i < 5; i += 1)
      t.equal((await ask(another, testHost, near)).how, 'end')
    t.match(stats().counters, { accepted: 1, failed: {} }, 'as before')
  })

  t.test('deny goes before allow', onLinux, async t => {
    const { listen, from, records, stats } = await setUp(t)
    const cases: [ClientLists, ...string[]][] = [
      [lists(undefined, ['127.0.0.0/24']), near, far],
      [lists(['127.0.0.12']), near, other],
      [lists(['127.0.0.12/31'], ['127.0.0.0/24']), near],
      [lists(['0.0.0.0/0'], ['127.0.0.0/8'])],
      [lists(['::/0', '10.0.0.0/8']), near, far, other],
      [lists(undefined, ['::/0'])],
      [{ allow: [rangesOf([near]), rangesOf(['::1', other])] }, near, other],
      [{ deny: [rangesOf([near]), rangesOf([other])] }, far],
      [{ allow: [] }],
    ]
    let refused = 0
    for (const [clients, ...letIn] of cases) {
      await listen(clients)
      for (const client of [near, far, other]) {
        const expected = letIn.includes(client) ? 'end' : 'ECONNRESET'
        if (expected !== 'end') refused += 1
        t.equal(await from(client), expected, `${client} ${JSON.stringify(clients)}`)
      }
    }
    await listen()
    t.equal(await from(far), 'end', 'without lists all are let in')
    await until('all are told of', () => records.length === 28)
    t.equal(records.filter(({ cause }) => cause === 'PR').length, refused)
    t.match(stats().counters, { accepted: 28, failed: { PR: refused }, active: 0 })
  })

  t.test('over IPv6', withIpv6, async t => {
    const { listen, from } = await setUp(t, '::1')
    await listen(lists(['::2/127', '127.0.0.0/8']))
    t.equal(await from('::1'), 'end')
    await listen(lists(['::/127']))
    t.equal(await from('::1'), 'ECONNRESET')
    await listen(lists(undefined, ['::1']))
    t.equal(await from('::1'), 'end')
  })

  t.test('thousands change while clients come', onLinux, async t => {
    const { listen, from, port } = await setUp(t)
    const [one, two] = [[...many(50_000), far], many(50_000)].map(list => lists(list))
    await listen(one)
    const open = dial(t, port, testHost)
    await once(open, 'connect')
    const asked: Promise<string>[] = []
    for (let i = 0; i < 20; i += 1) {
      asked.push(from(near), from(other))
      await listen(i % 2 === 0 ? two : one)
    }
    t.strictSame([...new Set(await Promise.all(asked))], ['end'])
    t.equal(await from(far), 'ECONNRESET')
    await listen(two)
    t.equal(await from(far), 'end')
  })

  t.test('UDP: what others send is dropped and counted', onLinux, async t => {
    const { listen, stats } = relayFixture(t, make)
    const { endpoint } = await echoUdp(t)
    const port = await freeUdpPort()
    const allow = (clients: ClientLists) =>
      listen({
        protocol: 'UDP',
        binds: [{ address: testHost, port }],
        endpoints: [endpoint],
        clients,
      })
    await allow(lists(['127.0.0.12']))
    const [good, bad] = [
      await udpClient(t, port, testHost, near),
      await udpClient(t, port, testHost, far),
    ]
    bad.send('x')
    good.send('y')
    await until('the one has its answer', () => good.received.length === 1)
    t.match(stats().counters, { accepted: 1, datagramsDropped: { 'not-allowed': 1 } })
    await allow(lists(['127.0.0.11']))
    bad.send('x')
    good.send('y')
    await until('the other has it', () => bad.received.length === 1)
    t.equal(good.received.length, 1, 'a flow ends that may not be any more')
  })
}
