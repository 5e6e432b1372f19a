import * as fc from 'fast-check'
import t from 'tap'
import { type Life, Lifetimes } from '../../src/relay/lifetimes.ts'

interface One {
  readonly acceptedAt: number
  bytes: number | undefined
  life: Life<One> | undefined
}

const one = (acceptedAt: number, bytes: number | undefined): One => ({
  acceptedAt,
  bytes,
  life: undefined,
})

const setUp = (random: () => number = () => 0) => {
  const lifetimes = new Lifetimes<One>(random, ({ bytes }) => bytes)
  const at = (now: number) =>
    Array.from(
      lifetimes.overdue(now),
      ({ connection, isQuiet }) => [connection, isQuiet] as const,
    )
  return { lifetimes, at }
}

t.test('one that is quiet goes a second after its end', async t => {
  const { lifetimes, at } = setUp()
  const quiet = one(100, 7)
  t.equal(lifetimes.wait(0), Infinity)
  lifetimes.set(quiet, 60_000, 100)
  t.equal(lifetimes.wait(100), 60_000)
  t.strictSame(at(60_099), [])
  t.strictSame(at(60_100), [], 'it is seen for the first time')
  t.ok(lifetimes.wait(60_100) <= 1000)
  t.strictSame(at(61_000), [])
  t.strictSame(at(61_250), [[quiet, true]])
  lifetimes.ended(quiet)
  t.strictSame(at(62_000), [])
  t.equal(lifetimes.wait(62_000), Infinity)
})

t.test('one that moves waits for a quiet moment, and not for ever', async t => {
  const { lifetimes, at } = setUp()
  const counting = (): One & { bytes: number } => ({ ...one(0, 0), bytes: 0 })
  const [busy, pausing, dialling] = [counting(), counting(), one(0, undefined)]
  for (const each of [busy, pausing, dialling]) lifetimes.set(each, 10_000, 0)
  for (let now = 10_000; now < 40_000; now += 500) {
    if (now < 12_000) pausing.bytes += 1
    busy.bytes += 1
    const found = at(now)
    t.strictSame(found, now < 12_500 ? [] : found.length > 0 ? [[pausing, true]] : [])
    if (found.length > 0) lifetimes.ended(pausing)
  }
  busy.bytes += 1
  t.strictSame(at(40_000), [
    [busy, false],
    [dialling, false],
  ])
})

t.test('each has a time of its own, of the last tenth', async () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      fc.integer({ min: 1000, max: 600_000_000 }),
      (share, lifetime) => {
        const { lifetimes } = setUp(() => share)
        lifetimes.set(one(5, 0), lifetime, 5)
        const ms = lifetimes.wait(5)
        return ms <= lifetime && ms >= lifetime * 0.9
      },
    ),
  )
})

t.test('a new lifetime counts from the accept, but does not end all at once', async t => {
  let share = 0
  const { lifetimes, at } = setUp(() => (share += 0.1))
  const some = Array.from({ length: 9 }, () => one(0, 0))
  for (const each of some) lifetimes.set(each, 100_000, 0)
  for (const each of some) lifetimes.set(each, 10_000, 50_000)
  const ended = new Map<number, number>()
  for (let now = 50_000; now < 53_000; now += 100)
    for (const [each] of at(now)) {
      lifetimes.ended(each)
      ended.set(now, (ended.get(now) ?? 0) + 1)
    }
  t.equal(
    [...ended.values()].reduce((sum, count) => sum + count, 0),
    9,
  )
  t.ok(Math.max(...ended.values()) <= 4, 'spread over a tenth of the lifetime')
  const [first] = some
  if (first === undefined) return
  lifetimes.set(first, 10_000, 60_000)
  lifetimes.set(first, undefined, 60_000)
  t.strictSame(at(100_000), [], 'any time will do again')
})
