import t, { type Test } from 'tap'
import { RecentRates } from '../../../src/observe/page/recent-rates.ts'
import { pastSteps, pastStepMs } from '../../../src/page/wire.ts'
import { newCounters } from '../../../src/relay/counters.ts'
import type { ListenerStats } from '../../../src/relay/relay.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

const listener = (id: string, accepted: number, failed = {}): ListenerStats => {
  const counters = newCounters()
  return {
    id,
    name: id,
    protocol: 'TCP',
    binds: [],
    endpoints: [],
    counters: { ...counters, accepted, failed: { ...counters.failed, ...failed } },
    lastError: '',
    failing: false,
    wanted: true,
  }
}

/** At a time of its own; `step` is what the relay has counted by the next one. */
const begin = async (t: Test) => {
  const clock = new FakeClock()
  const warnings: object[] = []
  let stats: () => readonly ListenerStats[] | undefined = () => []
  let looks = 0
  const rates = new RecentRates({
    stats: async () => {
      looks += 1
      const listeners = stats()
      return listeners && { listeners }
    },
    clock,
    log: { warn: fields => warnings.push(fields) },
  })
  const run = rates.run()
  t.teardown(async () => {
    rates.close()
    await run
  })
  const begun = looks
  clock.advance(pastStepMs)
  await until('it has looked, and waits', () => looks > begun && clock.waiting === 1)
  const step = async (
    next: () => readonly ListenerStats[] | undefined,
    ms = pastStepMs,
  ) => {
    stats = next
    const before = looks
    clock.advance(ms)
    await until('it has looked', () => looks > before && clock.waiting === 1)
  }
  const of = (id: string): readonly number[] => JSON.parse(rates.texts.get(id) ?? '[]')
  return { step, of, rates, warnings, clock }
}

t.test('new connections and failures of each step, a second', async t => {
  const { step, of, rates } = await begin(t)
  const quiet = listener('IPv4 quiet', 7)
  await step(() => [quiet, listener('IPv4 web', 10)])
  t.strictSame(of('IPv4 web').slice(-2), [2, 0], 'one that came since counts from 0')
  await step(() => [quiet, listener('IPv4 web', 35, { sC: 5, cD: 100 })])
  t.strictSame(of('IPv4 web').slice(-4), [2, 0, 5, 1], 'what clients end is no failure')
  t.equal(of('IPv4 web').length, 4, 'of two steps so far')
  await step(() => [quiet, listener('IPv4 web', 3)])
  t.strictSame(of('IPv4 web').slice(-2), [0, 0], 'a count that went back says nothing')
  const { texts } = rates
  t.equal(rates.texts, texts, 'the same until there is a next one')
})

t.test(
  'a look that takes long is followed by a longer pause, and is of more steps',
  async t => {
    const { step, of, clock } = await begin(t)
    await step(() => {
      // 50 ms: the next one comes after 15 s.
      clock.advance(50)
      return [listener('IPv4 web', 5)]
    })
    await step(() => [listener('IPv4 web', 50)], 15_000)
    t.strictSame(of('IPv4 web').slice(-8), [0.99, 0, 3, 0, 3, 0, 3, 0])
  },
)

t.test('looks that come in the middle of a step lose no time', async t => {
  const { step, of } = await begin(t)
  let accepted = 0
  // 7.2 s each: 24 steps are 120 s all the same.
  for (let i = 0; i < 17; i++) {
    accepted += 72
    await step(() => [listener('IPv4 web', accepted)], 7200)
  }
  const past = of('IPv4 web')
  t.equal(past.length, 2 * pastSteps)
  t.ok(
    past.every((rate, i) => rate === (i % 2 === 0 ? 10 : 0)),
    past.join(' '),
  )
})

t.test(
  'one failure in a long pause is seen, and of before the start nothing is said',
  async t => {
    const { step, of } = await begin(t)
    await step(() => [listener('IPv4 web', 0)])
    await step(() => [listener('IPv4 web', 1, { sC: 1 })], 30_000)
    const past = of('IPv4 web')
    t.equal(past.length, 2 * 7)
    t.strictSame(past.slice(-2), [0.0333, 0.0333])
  },
)

t.test('one that comes back with what it had counted before is no spike', async t => {
  const { step, of } = await begin(t)
  await step(() => [listener('IPv4 web', 1e6)])
  await step(() => [{ ...listener('IPv4 web', 1e6), wanted: false }])
  await step(() => [listener('IPv4 web', 1e6 + 5)])
  t.strictSame(of('IPv4 web').slice(-2), [1, 0])
})

t.test('two minutes, and then it is forgotten', async t => {
  const { step, of, rates } = await begin(t)
  await step(() => [listener('IPv4 web', 5)])
  for (let i = 1; i < pastSteps; i++) await step(() => [listener('IPv4 web', 5)])
  t.strictSame(of('IPv4 web').slice(0, 2), [1, 0])
  await step(() => [listener('IPv4 web', 5)])
  t.equal(rates.texts.size, 0)
})

t.test('node ports on loopback are a part of their Service', async t => {
  const { step, of } = await begin(t)
  await step(() => [listener('IPv4 web', 5), listener('IPv4 web on loopback', 10)])
  t.strictSame(of('IPv4 web').slice(-2), [3, 0])
  await step(() => [listener('IPv4 web on loopback', 20)])
  t.strictSame(of('IPv4 web'), [], 'and are not all of one that the kernel carries')
})

t.test(
  'without a relay there is nothing; figures that fail are told, and tried again',
  async t => {
    const { step, rates, of, warnings } = await begin(t)
    await step(() => undefined)
    t.equal(rates.texts.size, 0)
    await step(() => {
      throw new Error('no figures')
    })
    t.match(warnings, [{ err: { message: 'no figures' } }])
    await step(() => [listener('IPv4 web', 5)])
    t.strictSame(of('IPv4 web').slice(-4), [0.5, 0, 0.5, 0], 'of the time since the last')
  },
)
