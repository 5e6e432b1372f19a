import t from 'tap'
import { newCounters } from '../../../src/relay/counters.ts'
import {
  type ListenerStats,
  type RelayObserver,
  silentObserver,
} from '../../../src/relay/relay.ts'
import type { News } from '../../../src/relay/remote/messages.ts'
import { NewsReader } from '../../../src/relay/remote/news-reader.ts'
import { Outbox } from '../../../src/relay/remote/outbox.ts'
import { Restarts } from '../../../src/relay/remote/restarts.ts'
import { LastStats } from '../../../src/relay/supervised/last-stats.ts'
import type { StatsPage } from '../../../src/relay/supervised/messages.ts'
import {
  addCounters,
  packListener,
  unpackListener,
} from '../../../src/relay/supervised/packed-stats.ts'
import {
  RelayServer,
  type ServedRelay,
} from '../../../src/relay/supervised/relay-server.ts'
import { changesInParts } from '../../../src/relay/supervised/supervise-relay.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makePortableRelay } from '../../support/portable-relay.ts'
import { endpoint, listenerSpec, relayFixture } from '../../support/relay-fixture.ts'

const idle: ListenerStats = {
  id: 'IPv4 a',
  name: 'a',
  protocol: 'TCP',
  binds: [],
  endpoints: [{ key: 'x', active: 0, failures: 0, coolingDown: false }],
  counters: newCounters(),
  lastError: '',
  failing: false,
  wanted: true,
}

const busy: ListenerStats = {
  ...idle,
  binds: [{ bind: { address: '::1', port: 1 }, state: 'closed', reason: 'why' }],
  endpoints: [
    { key: 'x', active: 1, failures: 2, coolingDown: true },
    { key: 'y', active: 3, failures: 0, coolingDown: false, rttMs: 0.5, retransmits: 7 },
  ],
  counters: {
    accepted: 1,
    active: 2,
    dialAttempts: 3,
    dialRetries: 4,
    held: 9,
    holdRefused: 10,
    queued: 11,
    queueRefused: 12,
    failed: { SC: 2, CD: 1 },
    bytesToBackend: 5,
    bytesToClient: 6,
    accessLines: 11,
    datagramsToBackend: 7,
    datagramsToClient: 8,
    datagramsDropped: { loop: 3 },
    dialSeconds: [1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1],
    dialSecondsSum: 0.25,
    holdSeconds: [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 2],
    holdSecondsSum: 700,
  },
  lastError: 'oh',
  failing: false,
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

/** What a supervised relay is made of, without processes. */
t.test('what parent and data plane tell each other', async t => {
  t.test('pauses grow while data planes die early, and start over', async t => {
    const clock = new FakeClock()
    const start = (): void => {}
    const restarts = new Restarts(clock, 10_000, start, () => 0.999_999)
    const after = (livedMs: number) => Math.round(restarts.pauseAfter(livedMs))
    const early = [60_000, 0, 1, 9999, 0, 0, 0, 0, 0, 0].map(after)
    t.strictSame(early, [0, 0, 250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000])
    t.equal(after(10_000), 0)
    t.strictSame([0, 0].map(after), [0, 250])
    const hasty = new Restarts(clock, 10_000, start, () => 0)
    const two = [hasty.pauseAfter(0), hasty.pauseAfter(0)]
    t.strictSame(two, [0, 125], 'half of it at least')
    const regular = new Restarts(clock, 1000, start)
    const five = [0, 0, 0, 0, 0].map(lived => regular.pauseAfter(lived))
    t.strictSame(five, [0, 250, 500, 1000, 1000], 'all of it without jitter')
  })

  t.test('a change is what makes one list of another, in parts', async t => {
    const endpoints = Array.from({ length: 99 }, (_, i) => endpoint('192.0.2.1', i))
    const many = Array.from({ length: 100 }, (_, i) =>
      listenerSpec({ id: `${i}`, endpoints }),
    )
    const parts = [...changesInParts([], many)]
    t.ok(parts.length > 15, `${parts.length} parts`)
    t.strictSame(
      parts.flatMap(({ changed }) => changed),
      many,
    )
    const replaced = { ...many[3]! }
    const after = [...many.slice(0, 3), replaced, ...many.slice(5), listenerSpec({})]
    const changes = [...changesInParts(many, after)]
    t.strictSame(
      changes.flatMap(({ gone }) => gone),
      ['4'],
    )
    t.strictSame(
      changes.flatMap(({ changed }) => changed.map(({ id }) => id)),
      ['3', 'test'],
    )
    t.strictSame(
      [...changesInParts(many, many)],
      [{ kind: 'change', gone: [], changed: [] }],
    )
    const moved = [...changesInParts(many, many.toReversed())]
    t.strictSame(
      moved,
      [{ kind: 'change', gone: [], changed: [] }],
      'the order means nothing',
    )
  })

  t.test(
    'pages are those of the newest look, whatever an older one asks for',
    async t => {
      const outbox = new Outbox(new FakeClock(), [], () => {})
      const observer: RelayObserver = outbox
      const { relay } = relayFixture(t, request =>
        makePortableRelay({ ...request, observer }),
      )
      const server = new RelayServer(relay, outbox)
      const changed = Array.from({ length: 150 }, (_, i) => listenerSpec({ id: `${i}` }))
      await server.handle({ kind: 'change', gone: [], changed })
      await server.handle({ kind: 'apply' })
      const page = (read: number) =>
        server.handle({ kind: 'stats', read }) as Promise<StatsPage>
      const pages = [await page(1), await page(2)]
      await t.rejects(page(1), /a newer look/)
      t.match(pages, [{ last: false }, { last: true }])
      t.equal(pages.flatMap(({ listeners }) => listeners).length, 150)
    },
  )

  t.test(
    'pages tell what has changed since they were told, and what is gone',
    async t => {
      let now: readonly ListenerStats[] = []
      const stats = () => ({
        listeners: now,
        fds: { used: 0, limit: 0 },
        acceptPaused: false,
      })
      const relay = { stats } as unknown as ServedRelay
      const server = new RelayServer(relay, new Outbox(new FakeClock(), [], () => {}))
      const page = async (read: number): Promise<string> => {
        const told = (await server.handle({ kind: 'stats', read })) as StatsPage
        return [
          ...told.listeners.map(one => one.id),
          ...told.gone.map(id => `-${id}`),
        ].join(' ')
      }
      const named = (id: string): ListenerStats => ({ ...idle, id })
      const [a, b, c] = [named('a'), named('b'), named('c')]
      now = [a, b]
      t.equal(await page(1), 'a b')
      t.equal(await page(2), '')
      now = [{ ...a }, b, c]
      t.equal(await page(3), 'a c')
      now = [b]
      t.equal(await page(4), '-a -c')
      now = [b, c]
      t.equal(await page(5), 'c')
    },
  )

  t.test('a listener that goes and comes back before an apply is not closed', async t => {
    const calls: unknown[] = []
    const change = async (gone: readonly string[], changed: readonly { id: string }[]) =>
      void calls.push([gone, changed.map(({ id }) => id)])
    const relay = { change } as unknown as ServedRelay
    const server = new RelayServer(relay, new Outbox(new FakeClock(), [], () => {}))
    const spec = listenerSpec({ id: 'a' })
    await server.handle({ kind: 'change', gone: ['a', 'b'], changed: [] })
    await server.handle({ kind: 'change', gone: [], changed: [spec] })
    await server.handle({ kind: 'apply' })
    await server.handle({ kind: 'apply' })
    t.strictSame(calls, [
      [['b'], ['a']],
      [[], []],
    ])
  })

  t.test('figures come out as they went in', async t => {
    t.strictSame(unpackListener(packListener(busy)), busy)
    // Endpoints that were never used have nothing to tell.
    t.strictSame(unpackListener(packListener(idle)), { ...idle, endpoints: [] })
  })

  t.test('totals add up, whatever each has counted', async t => {
    const { counters } = packListener(busy)
    const sum = addCounters(addCounters([], packListener(idle).counters), counters)
    const twice = { ...packListener(busy), counters: addCounters(sum, counters) }
    t.match(unpackListener(twice).counters, {
      accepted: 2 * busy.counters.accepted,
      active: busy.counters.active,
      failed: { SC: 4, CD: 2 },
      datagramsDropped: { loop: 6 },
      dialSeconds: [2, 0, 4],
      dialSecondsSum: 0.5,
      held: 9,
      queued: busy.counters.queued,
      holdRefused: 20,
      holdSecondsSum: 1400,
    })
  })

  t.test('figures over the deaths of data planes', async t => {
    const known = new LastStats(1000)
    const read = (
      listeners: readonly ListenerStats[],
      gone: string[] = [],
      last = true,
    ) =>
      known.read({
        listeners: listeners.map(packListener),
        gone,
        last,
        whole: { fds: { used: 1, limit: 2000 }, acceptPaused: true },
      })
    const idsNow = () => [...known.stats().listeners].map(({ id }) => id).toSorted()
    read([busy, { ...busy, id: 'other' }])
    const before = known.stats()
    t.match(before, { fds: { used: 1, limit: 2000 }, acceptPaused: true, restarts: 0 })
    known.died([listenerSpec({ id: busy.id }), listenerSpec({ id: 'leaves' })])
    const [{ counters: last } = busy] = before.listeners
    t.match(last, busy.counters, 'what was read before is not counted twice')
    const counters = { accepted: 1, active: 0, held: 0, failed: { SC: 2 } }
    const [lost] = known.stats().listeners
    t.match(lost, { id: busy.id, counters })
    t.match(known.stats(), { fds: { used: 0, limit: 2000 }, acceptPaused: false })
    t.strictSame(idsNow(), [busy.id, 'leaves'])
    read([{ ...busy, id: 'new' }], [], false)
    t.strictSame(idsNow(), [busy.id, 'leaves', 'new'], 'it may come with the next page')
    read([busy])
    t.strictSame(idsNow(), [busy.id, 'new'], 'what it does not report is gone')
    const again = { accepted: 2, active: busy.counters.active, failed: { SC: 4 } }
    const busyNow = [...known.stats().listeners].find(({ id }) => id === busy.id)
    t.match(busyNow, { counters: again })
    read([], ['new'])
    t.strictSame(idsNow(), [busy.id])
  })

  t.test(
    'news travel one message at a time, and what is too much is counted',
    async t => {
      const clock = new FakeClock()
      const sent: News[] = []
      const outbox = new Outbox(clock, ['SC'], news => void sent.push(news))
      t.strictSame([outbox.wants('SC'), outbox.wants('--')], [true, false])
      for (let i = 0; i < 21_000; i += 1) outbox.connectionClosed(record)
      const bind = { address: '192.0.2.1', port: 1 }
      outbox.bindChanged('a', { bind, state: 'binding' })
      outbox.bindChanged('a', { bind, state: 'listening' })
      outbox.lastError(7, 'one')
      outbox.lastError(7, 'another')
      for (let i = 0; i < 3; i += 1) outbox.allFailed('a')
      for (const paused of [true, false, true, false]) outbox.acceptPaused(paused, 1, 2)
      clock.advance(19)
      t.equal(sent.length, 0)
      clock.advance(1)
      t.equal(sent[0]?.lost, 1000)
      t.match(sent[0]?.states, [
        { listener: 'a', state: { state: 'listening' } },
        { slot: 7, text: 'another' },
        { kind: 'all-failed', listener: 'a' },
        { paused: true },
        { paused: false },
      ])
      t.equal(sent[0]?.states.length, 5, 'only the last of each')
      clock.advance(1000)
      t.equal(sent.length, 1, 'it has not been read')
      outbox.taken()
      clock.advance(20)
      t.equal(sent.length, 2)
      outbox.flush()
      t.equal(sent.flatMap(({ records }) => records).length, 20_000)
      t.equal(sent.length, 40, 'not all in one')
      outbox.connectionClosed(record)
      clock.advance(1000)
      t.equal(sent.length, 40)
      for (let i = 0; i < 39; i += 1) outbox.taken()
      clock.advance(20)
      t.equal(sent.length, 41)
    },
  )

  t.test('a fault does not wait, unless one is unread', async t => {
    const sent: News[] = []
    const outbox = new Outbox(new FakeClock(), [], news => void sent.push(news))
    outbox.fault('a', 'not even an error')
    t.match(sent, [{ faults: [['a', { message: 'not even an error' }]] }])
    for (let i = 0; i < 101; i += 1) outbox.fault('a', new Error('more'))
    t.equal(sent.length, 1)
    outbox.flush()
    t.match(sent[1], { faults: { length: 100 }, lost: 1 })
  })

  t.test('lost records are told of once a minute', async t => {
    const clock = new FakeClock()
    const faults: string[] = []
    const fault = (_listener: string, { message }: Error): void =>
      void faults.push(message)
    const reader = new NewsReader(clock, { ...silentObserver, fault })
    const lose = (lost: number): void =>
      reader.read({ states: [], records: [], faults: [], accessLines: [], lost }, false)
    lose(1)
    lose(2)
    clock.advance(60_000)
    lose(3)
    const what = 'records of connections, or faults, came too fast and were lost'
    t.strictSame(faults, [`1 ${what}`, `5 ${what}`])
  })
})
