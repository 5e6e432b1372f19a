import t from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { testHost } from '../../../support/ports.ts'
import { echoUdp, type UdpBackend } from '../../../support/udp-backend.ts'
import { type UdpClient, udpClient } from '../../../support/udp-client.ts'
import { until } from '../../../support/until.ts'
import { udpWorker } from './udp-worker.ts'

/** Mulberry32: the same numbers for one seed. */
const seeded = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b_79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const sizes = [0, 1, 3, 64, 64, 512, 1472, 1473, 9000, 65_507]
/** What a socket's default buffer takes for sure, with what the kernel adds to each. */
const mostBytes = 90_000
const addedBytes = 1024

class Story {
  readonly below: (end: number) => number
  readonly #random: () => number
  #serial = 0

  constructor(seed: number) {
    this.#random = seeded(seed)
    this.below = end => Math.floor(this.#random() * end)
  }

  /** Datagrams of many clients in runs, no two of which are the same if they are not empty. */
  bursts(clients: readonly UdpClient[]): readonly (readonly [UdpClient, Buffer])[] {
    const all: (readonly [UdpClient, Buffer])[] = []
    for (let left = mostBytes; left > 0;) {
      const client = clients[this.below(clients.length)] ?? this.#nobody()
      const size = sizes[this.below(sizes.length)] ?? 0
      for (let run = this.below(20) + 1; run > 0; run -= 1) {
        const length = this.below(4) === 0 ? this.below(size + 1) : size
        left -= length + addedBytes
        if (left < 0 && all.length > 0) return all
        all.push([client, this.#datagram(length)])
      }
    }
    return all
  }

  #nobody(): never {
    throw new Error('there are no clients')
  }

  #datagram(length: number): Buffer {
    const datagram = Buffer.alloc(length, this.below(256))
    if (length >= 4) datagram.writeUInt32BE((this.#serial += 1), length - 4)
    return datagram
  }
}

const texts = (list: readonly Buffer[]): string[] => list.map(one => one.toString('hex'))

const clear = (...lists: readonly Buffer[][]): void => {
  for (const list of lists) list.length = 0
}

/** Those of `list` that are in `of`, in their order there. */
const subset = (of: readonly string[], list: readonly string[]): string[] => {
  const own = new Set(list)
  return of.filter(one => own.has(one))
}

t.test('any traffic', { skip: linuxRelaySkip() }, async t => {
  const seed = Number(process.env['USHER_TEST_SEED'] ?? 20_261_121)
  const story = new Story(seed)
  const backends: UdpBackend[] = []
  for (let i = 0; i < 3; i += 1) backends.push(await echoUdp(t))
  const some = () => backends.filter((_, i) => i === 0 || story.below(2) === 0)
  const endpoints = (list: readonly UdpBackend[]) => list.map(one => one.endpoint)
  const { port, update, counters } = await udpWorker(t, endpoints(backends))
  const clients: UdpClient[] = []
  for (let i = 0; i < 12; i += 1) {
    clients.push(await udpClient(t, port, testHost, `127.0.0.${40 + (i % 3)}`))
  }
  const received = clients.map(one => one.received)

  t.test(`comes back as it was sent, by seed ${seed}`, async t => {
    let sum = 0
    for (let round = 0; round < 40; round += 1) {
      if (story.below(3) === 0) update(endpoints(some()))
      const bursts = story.bursts(clients)
      for (const [client, datagram] of bursts) client.send(datagram)
      sum += bursts.length
      await until('all are back', () => received.flat().length >= bursts.length)
      for (const client of clients) {
        const sent = bursts.filter(([from]) => from === client).map(([, one]) => one)
        t.strictSame(texts(client.received), texts(sent), `round ${round}`)
      }
      clear(...received, ...backends.map(one => one.received))
    }
    t.match(counters(), { datagramsToBackend: sum, datagramsToClient: sum })
    t.strictSame(counters().datagramsDropped, {})
  })

  t.test('reaches one endpoint each, in order, while they change', async t => {
    const before = counters()
    let sum = 0
    for (let round = 0; round < 30; round += 1) {
      const bursts = story.bursts(clients).filter(([, { length }]) => length >= 4)
      for (const [i, [client, datagram]] of bursts.entries()) {
        client.send(datagram)
        if (story.below(8) === 0) update(endpoints(some()))
        if (i % 16 === 15) await new Promise(resolve => setImmediate(resolve))
      }
      sum += bursts.length
      await until('all are there', () => {
        return backends.flatMap(one => one.received).length >= bursts.length
      })
      const arrived = backends.map(one => texts(one.received))
      t.strictSame(
        arrived.flat().toSorted(),
        texts(bursts.map(([, one]) => one)).toSorted(),
      )
      for (const client of clients) {
        const sent = texts(bursts.filter(([from]) => from === client).map(([, d]) => d))
        for (const list of arrived) {
          const own = subset(list, sent)
          t.strictSame(own, subset(sent, own), `round ${round}`)
        }
      }
      clear(...received, ...backends.map(one => one.received))
    }
    t.equal(counters().datagramsToBackend - before.datagramsToBackend, sum)
    t.strictSame(counters().datagramsDropped, {})
  })
})
