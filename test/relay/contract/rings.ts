import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { dial } from '../../support/tcp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const at = (port: number) => [{ address: testHost, port }]

const endpointAt = (port: number) => ({
  key: `${testHost}:${port}`,
  address: testHost,
  port,
})

/** Relays that name each other as endpoint: no ring of them outlives its client. */
export const ringsContract = (t: Test, ...makers: readonly MakeRelay[]): void => {
  const request = {
    openFileLimit: 1000,
    limits: { halfCloseTimeout: 1000, udpMaxFlowsPerPort: 300 },
    wants: false,
  }

  const ring = async (
    t: Test,
    protocol: RelayListener['protocol'],
    ports: readonly number[],
    over: ListenerSpec,
  ) => {
    const fixtures = makers.map(make => relayFixture(t, make, request))
    for (const [i, { listen }] of fixtures.entries()) {
      const endpoints = [endpointAt(ports[(i + 1) % ports.length] ?? 0)]
      await listen({ protocol, binds: at(ports[i] ?? 0), endpoints, ...over })
    }
    const count = (what: 'active' | 'accepted'): number =>
      fixtures.reduce((sum, { stats }) => sum + stats().counters[what], 0)
    return { count }
  }

  const over: readonly (readonly [string, ListenerSpec, (client: Socket) => void])[] = [
    ['resets', {}, reset],
    ['half-closes', {}, client => void client.end('hello')],
    ['leaves, having spoken', {}, client => client.end('hello', () => client.destroy())],
    [
      'resets where clients are held and endpoints close early',
      { retry: { earlyClose: true, replay: 1024, holdMs: 30_000 } },
      client => client.write('hello', () => reset(client)),
    ],
    ['resets behind headers', { proxyProtocol: 'v2' }, reset],
  ]
  for (const [what, spec, leave] of over) {
    t.test(`a ring of ${makers.length} ends with a client that ${what}`, async t => {
      const ports = await Promise.all(makers.map(() => freeTcpPort()))
      const { count } = await ring(t, 'TCP', ports, spec)
      const client = dial(t, ports[0] ?? 0)
      client.on('error', () => {})
      await once(client, 'connect')
      await until('it goes round', () => count('accepted') > 50)
      leave(client)
      await until('nothing goes round', () => count('active') === 0, 15_000)
      const accepted = count('accepted')
      await sleep(300)
      t.equal(count('accepted'), accepted)
    })
  }

  t.test(`a datagram goes round ${makers.length} and ends`, async t => {
    const ports = await Promise.all(makers.map(() => freeUdpPort()))
    const { count } = await ring(t, 'UDP', ports, {})
    const client = await udpClient(t, ports[0] ?? 0)
    client.send('hello')
    // Neither is the first datagram's port among those of a listener.
    await until('it goes round', () => count('accepted') > 300)
    let before = 0
    await until('it has ended', async () => {
      before = count('accepted')
      await sleep(300)
      return count('accepted') === before
    })
    t.ok(before > 0)
  })
}
