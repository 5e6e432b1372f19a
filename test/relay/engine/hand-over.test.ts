import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { HandedOver, RelayListener, TakenOver } from '../../../src/relay/relay.ts'
import { readBulk, sendBulk } from '../../support/bulk.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayOfTwo } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  listenerSpec,
  type MakeRelay,
  relayFixture,
  type RelayFixture,
  type RelayRequest,
} from '../../support/relay-fixture.ts'
import { dial, echoBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const mib = 1 << 20

const fixture = (
  t: Test,
  request: RelayRequest = {},
  make: MakeRelay = makeLinuxRelayOfTwo,
): RelayFixture => relayFixture(t, make, request)

/** One more relay takes over all that `before` has; that one has ended when it resolves. */
const takeOver = async (
  before: RelayFixture,
  after: RelayFixture,
  listeners: readonly RelayListener[],
): Promise<{ readonly handed: HandedOver; readonly taken: TakenOver | undefined }> => {
  const place = await before.relay.handOver()
  const over = before.relay.handedOver()
  const { refused } = await after.relay.takeOver(place)
  if (refused !== '') throw new Error(refused)
  await after.relay.apply(listeners)
  const taken = await after.relay.finishTakeOver()
  const handed = await over
  await before.relay.drain(0)
  return { handed, taken }
}

t.test('one relay takes over from another', { skip: linuxRelaySkip() }, async t => {
  t.test('who listens, and who is connected', async t => {
    const port = await freeTcpPort()
    const backend = await echoBackend(t)
    const listeners = [
      listenerSpec({
        binds: [{ address: testHost, port }],
        endpoints: [backend.endpoint],
      }),
    ]
    const before = fixture(t)
    await before.relay.apply(listeners)
    const clients = Array.from({ length: 300 }, () => dial(t, port))
    const heard = new Map(clients.map(client => [client, '']))
    for (const client of clients) {
      client.on('data', data =>
        heard.set(client, (heard.get(client) ?? '') + String(data)),
      )
      client.write('before ')
    }
    const all = (text: string) => () => [...heard.values()].every(one => one === text)
    await until('all have an echo', all('before '))
    const after = fixture(t)
    const { handed, taken } = await takeOver(before, after, listeners)
    t.match(handed, { refused: '', connections: 300, staying: {} })
    t.match(taken, { pid: process.pid, connections: 300, staying: {}, lost: '' })
    for (const client of clients) client.write('after')
    await until('all have another', all('before after'))
    t.equal(after.stats().counters.active, 300)
    t.equal(after.stats().counters.accepted, 300, 'nothing is counted twice, or lost')
    t.strictSame(before.records, [], 'the record is for the one that sees the end')
    for (const client of clients) client.end()
    await until('all have ended', () => after.stats().counters.active === 0)
    await until('all are recorded', () => after.records.length === 300)
    t.ok(after.records.every(({ cause }) => cause === '--'))
    const [record] = after.records
    t.match(record, {
      endpoint: backend.endpoint.key,
      bytesToBackend: 12,
      bytesToClient: 12,
    })
    t.strictSame([...before.faults, ...after.faults], [])
  })

  t.test('in transit, and ten times in a row', async t => {
    const port = await freeTcpPort()
    const backend = await echoBackend(t)
    const listeners = [
      listenerSpec({
        binds: [{ address: testHost, port }],
        endpoints: [backend.endpoint],
      }),
    ]
    const first = fixture(t)
    await first.relay.apply(listeners)
    const size = 128 * mib
    const clients = Array.from({ length: 12 }, () => dial(t, port))
    await Promise.all(clients.map(client => once(client, 'connect')))
    const readers = clients.map(client => {
      sendBulk(client, size)
      return readBulk(client)
    })
    let now = first
    for (let turn = 0; turn < 10; turn += 1) {
      await sleep(50)
      const next = fixture(t)
      const { handed } = await takeOver(now, next, listeners)
      t.strictSame(handed.staying, {})
      t.strictSame(next.faults, [])
      now = next
    }
    await until('all has come', () => readers.every(one => one.ended()), 60_000)
    for (const { bytes, firstWrong } of readers) {
      t.equal(bytes(), size)
      t.equal(firstWrong(), -1)
    }
  })
  t.end()
})
