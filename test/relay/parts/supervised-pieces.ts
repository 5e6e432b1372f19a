import type { Test } from 'tap'
import { newCounters } from '../../../src/relay/counters.ts'
import type { ListenerStats, RelayObserver } from '../../../src/relay/relay.ts'
import { listenerChanges } from '../../../src/relay/supervised/listener-changes.ts'
import type { News, StatsPage } from '../../../src/relay/supervised/messages.ts'
import { Outbox } from '../../../src/relay/supervised/outbox.ts'
import {
  addTotals,
  packListener,
  unpackListener,
} from '../../../src/relay/supervised/packed-stats.ts'
import { RelayServer } from '../../../src/relay/supervised/relay-server.ts'
import { RestartPause } from '../../../src/relay/restart-pause.ts'
import { makePortableRelay } from '../../support/portable-relay.ts'
import { endpoint, listenerSpec, relayFixture } from '../../support/relay-fixture.ts'

/** What a supervised relay is made of, without processes. */
export const supervisedPartTests = (t: Test): void => {
  t.test('pauses grow while data planes die early, and start over', async t => {
    const pause = new RestartPause(10_000, () => 0.999_999)
    const after = (livedMs: number) => Math.round(pause.after(livedMs))
    const early = [60_000, 0, 1, 9999, 0, 0, 0, 0, 0, 0].map(after)
    t.strictSame(early, [0, 0, 250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000])
    t.equal(after(10_000), 0)
    t.strictSame([0, 0].map(after), [0, 250])
    const hasty = new RestartPause(10_000, () => 0)
    t.strictSame([hasty.after(0), hasty.after(0)], [0, 125], 'half of it at least')
  })

  t.test('a change is what makes one list of another, in parts', async t => {
    const endpoints = Array.from({ length: 99 }, (_, i) => endpoint('192.0.2.1', i))
    const many = Array.from({ length: 100 }, (_, i) =>
      listenerSpec({ id: `${i}`, endpoints }),
    )
    const parts = [...listenerChanges([], many)]
    t.ok(parts.length > 15, `${parts.length} parts`)
    t.strictSame(
      parts.flatMap(({ changed }) => changed),
      many,
    )
    const replaced = { ...many[3]! }
    const after = [...many.slice(0, 3), replaced, ...many.slice(5), listenerSpec({})]
    const changes = [...listenerChanges(many, after)]
    t.strictSame(
      changes.flatMap(({ gone }) => gone),
      ['4'],
    )
    t.strictSame(
      changes.flatMap(({ changed }) => changed.map(({ id }) => id)),
      ['3', 'test'],
    )
    t.strictSame([...listenerChanges(many, many)], [{ gone: [], changed: [] }])
    const moved = [...listenerChanges(many, many.toReversed())]
    t.strictSame(moved, [{ gone: [], changed: [] }], 'the order means nothing')
  })

  t.test(
    'pages are those of the newest look, whatever an older one asks for',
    async t => {
      const outbox = new Outbox([], () => {})
      const observer: RelayObserver = outbox
      const { relay } = relayFixture(t, request =>
        makePortableRelay({ ...request, observer }),
      )
      const server = new RelayServer(relay, outbox)
      const changed = Array.from({ length: 150 }, (_, i) => listenerSpec({ id: `${i}` }))
      await server.answer({ kind: 'change', gone: [], changed })
      await server.answer({ kind: 'apply' })
      const page = (look: number) =>
        server.answer({ kind: 'stats', look }) as Promise<StatsPage>
      // The first is still being made when the second begins.
      const older = page(1)
      const pages = [await page(2)]
      await t.rejects(older, /a newer look/)
      await t.rejects(page(1), /a newer look/)
      pages.push(await page(2))
      t.match(pages, [{ last: false }, { last: true }])
      t.equal(pages.flatMap(({ listeners }) => listeners).length, 150)
    },
  )

  t.test('figures come out as they went in', async t => {
    for (const stats of [idle, busy])
      t.strictSame(unpackListener(packListener(stats), 11), stats)
  })

  t.test('totals add up, whatever each has counted', async t => {
    const { totals } = packListener(busy)
    const sum = addTotals(addTotals(undefined, packListener(idle).totals), totals)
    const twice = { ...packListener(busy), totals: addTotals(sum, totals) }
    t.match(unpackListener(twice, 11).counters, {
      accepted: 2 * busy.counters.accepted,
      active: busy.counters.active,
      failed: { SC: 4, CD: 2 },
      datagramsDropped: { loop: 6 },
      dialSeconds: [2, 0, 4],
      dialSecondsSum: 0.5,
    })
  })

  t.test(
    'news travel one message at a time, and what is too much is counted',
    async t => {
      const sent: News[] = []
      const outbox = new Outbox(['SC'], news => void sent.push(news))
      t.strictSame([outbox.wants('SC'), outbox.wants('--')], [true, false])
      for (let i = 0; i < 5000; i += 1) outbox.connectionClosed(record)
      const bind = { address: '192.0.2.1', port: 1 }
      outbox.bindChanged('a', { bind, state: 'binding' })
      outbox.bindChanged('a', { bind, state: 'listening' })
      let flushed = false
      const all = outbox.flush().then(() => (flushed = true))
      t.equal(sent.length, 1)
      t.match(sent[0], { binds: [['a', { state: 'listening' }]], lost: 1000 })
      t.equal(sent[0]?.binds.length, 1, 'only the last state')
      for (let i = 1; i < 8; i += 1) {
        outbox.taken()
        t.equal(sent.length, i + 1)
        t.equal(flushed, false)
      }
      outbox.taken()
      await all
      t.equal(sent.flatMap(({ records }) => records).length, 4000)
      await outbox.flush()
      t.equal(sent.length, 8, 'nothing more to say')
    },
  )

  t.test('news without end put off nobody who waits for the first', async t => {
    let sent = 0
    const outbox = new Outbox(['SC'], () => void (sent += 1))
    for (let i = 0; i < 700; i += 1) outbox.connectionClosed(record)
    let flushed = 0
    const first = outbox.flush().then(() => (flushed = sent))
    for (let i = 0; i < 10; i += 1) {
      outbox.connectionClosed(record)
      outbox.taken()
      await Promise.resolve()
    }
    await first
    t.equal(flushed, 2, 'two messages of 500')
  })
}

const idle: ListenerStats = {
  id: 'IPv4 a',
  name: 'a',
  protocol: 'TCP',
  binds: [],
  endpoints: [{ key: 'x', active: 0, failures: 0, resting: false }],
  counters: newCounters(),
  lastError: '',
  wanted: true,
}

const busy: ListenerStats = {
  ...idle,
  binds: [{ bind: { address: '::1', port: 1 }, state: 'closed', reason: 'why' }],
  endpoints: [
    { key: 'x', active: 1, failures: 2, resting: true },
    { key: 'y', active: 3, failures: 0, resting: false, rttMs: 0.5, retransmits: 7 },
  ],
  counters: {
    accepted: 1,
    active: 2,
    dialAttempts: 3,
    dialRetries: 4,
    failed: { SC: 2, CD: 1 },
    bytesToBackend: 5,
    bytesToClient: 6,
    datagramsToBackend: 7,
    datagramsToClient: 8,
    datagramsDropped: { loop: 3 },
    dialSeconds: [1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1],
    dialSecondsSum: 0.25,
  },
  lastError: 'oh',
  wanted: false,
}

const record = {
  listener: 'a',
  client: '',
  endpoint: '',
  attempts: [],
  bytesToBackend: 0,
  bytesToClient: 0,
  dialMs: 0,
  totalMs: 0,
  cause: 'SC',
  detail: '',
} as const
