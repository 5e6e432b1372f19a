import { randomBytes } from 'node:crypto'
import t from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { testHost } from '../../../support/ports.ts'
import { echoUdp, namedUdp, udpBackend } from '../../../support/udp-backend.ts'
import { udpClient } from '../../../support/udp-client.ts'
import { until } from '../../../support/until.ts'
import { udpWorker } from './udp-worker.ts'

t.test('UDP in a worker', { skip: linuxRelaySkip() }, async t => {
  for (const [wildcard, near, far] of [
    ['0.0.0.0', testHost, '127.0.0.20'],
    ['::', '::1', '::1'],
  ] as const) {
    t.test(`on ${wildcard} replies leave from the address written to`, async t => {
      const backend = await echoUdp(t)
      const { port, counters } = await udpWorker(
        t,
        [backend.endpoint],
        undefined,
        {},
        wildcard,
      )
      const one = await udpClient(t, port, near)
      t.equal(await one.ask('1'), '1')
      // From the same address and port: only where it writes to is another.
      const { port: from } = one
      await one.close()
      const two = await udpClient(t, port, far, near, from)
      t.equal(await two.ask('2'), '2')
      t.equal(counters().accepted, near === far ? 1 : 2, 'a flow for each address')
    })
  }

  const lengths = (list: readonly Buffer[]) => list.map(one => one.length)
  const bursts: readonly (readonly [string, readonly number[]])[] = [
    ['of one length', Array<number>(64).fill(1200)],
    ['of one length and a shorter one', [...Array<number>(20).fill(700), 3]],
    ['of two lengths', [...Array<number>(10).fill(9), ...Array<number>(10).fill(90)]],
    ['with empty ones', [0, 0, 5, 5, 0, 5, 0]],
    ['of long ones', Array<number>(6).fill(30_000)],
  ]
  for (const [name, sizes] of bursts) {
    t.test(`a burst ${name} comes as it was sent, both ways`, async t => {
      const sent = sizes.map(size => randomBytes(size))
      // All at once, so that replies have neighbours of their own.
      const backend = await udpBackend(t, (_message, reply) => {
        if (backend.received.length === sent.length) {
          for (const one of backend.received) reply(one)
        }
      })
      const { port, counters } = await udpWorker(t, [backend.endpoint])
      const client = await udpClient(t, port)
      for (const one of sent) client.send(one)
      await until('all are back', () => client.received.length === sent.length)
      t.ok(Buffer.concat(backend.received).equals(Buffer.concat(sent)))
      t.ok(Buffer.concat(client.received).equals(Buffer.concat(sent)))
      t.strictSame(lengths(backend.received), sizes)
      t.strictSame(lengths(client.received), sizes)
      const bytes = Buffer.concat(sent).length
      t.match(counters(), {
        datagramsToBackend: sizes.length,
        datagramsToClient: sizes.length,
        bytesToBackend: bytes,
        bytesToClient: bytes,
      })
    })
  }

  t.test(
    'a flow whose turn to move has not come moves with its next datagram',
    async t => {
      const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
      const { port, update, counters, moves } = await udpWorker(t, [a.endpoint])
      const client = await udpClient(t, port)
      t.equal(await client.ask('1'), 'a')
      moves.begin = () => {}
      update([b.endpoint])
      t.equal(await client.ask('2'), 'b')
      t.match(counters(), { accepted: 1, active: 1, dialAttempts: 2 })
    },
  )
})
