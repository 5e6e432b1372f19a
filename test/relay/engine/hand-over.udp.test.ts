import { fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { HandedOver, RelayListener, TakenOver } from '../../../src/relay/relay.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayOfTwo } from '../../support/linux-relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  listenerSpec,
  relayFixture,
  type RelayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { namedUdp, udpBackend, type UdpBackend } from '../../support/udp-backend.ts'
import { udpClient, type UdpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

void [fork, sleep, freeTcpPort, namedUdp]

const fixture = (t: Test, request: RelayRequest = {}): RelayFixture =>
  relayFixture(t, makeLinuxRelayOfTwo, request)

const takeOver = async (
  before: RelayFixture,
  after: RelayFixture,
  listeners: readonly RelayListener[],
): Promise<{ readonly handed: HandedOver; readonly taken: TakenOver | undefined }> => {
  const place = await before.relay.handOver()
  const over = before.relay.handedOver()
  const refused = await after.relay.takeOver(place)
  if (refused !== '') throw new Error(refused)
  await after.relay.apply(listeners)
  const taken = await after.relay.finishTakeOver()
  return { handed: await over, taken }
}

/** Says which it is, and from which port it was asked. */
const seer = (t: Test, name: string): Promise<UdpBackend> =>
  udpBackend(t, (message, reply, from) => reply(`${name} ${from.port} ${message}`))

const three = (t: Test): Promise<UdpBackend[]> =>
  Promise.all(['a', 'b', 'c'].map(name => seer(t, name)))

const clientsAt = (t: Test, port: number, count: number): Promise<UdpClient[]> =>
  Promise.all(Array.from({ length: count }, () => udpClient(t, port)))

t.test('flows pass to the next relay', { skip: linuxRelaySkip() }, async t => {
  t.test('five times, under traffic', async t => {
    const port = await freeUdpPort()
    const backends = await three(t)
    const listeners = [
      listenerSpec({
        protocol: 'UDP',
        binds: [{ address: testHost, port }],
        endpoints: backends.map(({ endpoint }) => endpoint),
      }),
    ]
    const first = fixture(t)
    await first.relay.apply(listeners)
    const clients = await clientsAt(t, port, 200)
    const placeOf = async (client: UdpClient): Promise<string> =>
      (await client.ask('?')).split(' ').slice(0, 2).join(' ')
    const places: string[] = []
    for (const client of clients) places.push(await placeOf(client))
    t.equal(new Set(places).size, 200)

    const busy = clients.slice(0, 20)
    const before = busy.map(({ received }) => received.length)
    let sent = 0
    const timer = setInterval(() => {
      sent += 1
      for (const client of busy) client.send(String(sent))
    }, 5)
    t.teardown(() => clearInterval(timer))
    let now = first
    for (let turn = 0; turn < 5; turn += 1) {
      await sleep(100)
      const next = fixture(t)
      const { handed, taken } = await takeOver(now, next, listeners)
      t.match(handed, { refused: '', flows: 200, connections: 0, staying: {} })
      t.match(taken, { flows: 200, staying: {}, lost: '' })
      t.equal(now.stats().counters.active, 0)
      t.equal(carryingFds(now.relay.stats()), 0)
      await now.relay.drain(0)
      t.match(next.stats().counters, { active: 200, accepted: 200 })
      t.strictSame([...now.faults, ...next.faults], [])
      now = next
    }
    await sleep(100)
    clearInterval(timer)
    await sleep(200)
    const echoes = busy.map(({ received }, i) => received.length - (before[i] ?? 0))
    t.strictSame([...new Set(echoes)], [sent], 'none is lost, and none comes twice')
    const after: string[] = []
    for (const client of clients) after.push(await placeOf(client))
    t.strictSame(after, places, 'each has its endpoint, and its port there')
    const { counters, endpoints } = now.stats()
    const all = 200 * 2 + 20 * sent
    t.match(counters, {
      active: 200,
      accepted: 200,
      datagramsToBackend: all,
      datagramsToClient: all,
      datagramsDropped: {},
    })
    t.equal(
      endpoints.reduce((sum, { active }) => sum + active, 0),
      200,
    )
  })
  t.end()
})
