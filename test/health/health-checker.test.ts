import t, { type Test } from 'tap'
import {
  type CheckedEndpoint,
  type CheckLimits,
  type CheckOutcome,
  denied,
  failed,
  passed,
  usualRules,
} from '../../src/health/check.ts'
import { type CheckTarget, HealthChecker } from '../../src/health/health-checker.ts'
import { FakeClock } from '../support/fake-clock.ts'

const check = { type: 'tcp' } as const

const targets = (count: number, more: Partial<CheckTarget> = {}): CheckTarget[] =>
  Array.from({ length: count }, (_, i) => ({
    key: `${i}`,
    address: '10.0.0.1',
    port: i + 1,
    host: '',
    check,
    rules: usualRules,
    ...more,
  }))

/** A checker whose checks take `takesMs`, and say what `outcome` holds for a port. */
const setUp = (t: Test, { takesMs = 1, most = 256 } = {}) => {
  const clock = new FakeClock()
  const outcome = new Map<number, CheckOutcome>()
  const started: { readonly port: number; readonly at: number }[] = []
  const turned: string[] = []
  const now = { underWay: 0, most: 0 }
  const run = ({ port }: CheckedEndpoint, { signal }: CheckLimits) =>
    new Promise<CheckOutcome>(resolve => {
      started.push({ port, at: clock.now() })
      now.underWay += 1
      now.most = Math.max(now.most, now.underWay)
      const end = () => {
        now.underWay -= 1
        resolve(outcome.get(port) ?? passed)
      }
      clock.setTimeout(end, takesMs)
      signal.addEventListener('abort', end)
    })
  const checker = new HealthChecker({
    clock,
    most,
    random: () => 0.5,
    makeCheck: () => run,
    changed: ({ key }, { up, reason }, hasTurned) =>
      hasTurned && turned.push(`${key} ${up ? 'up' : `down: ${reason}`}`),
  })
  t.teardown(() => checker.close())
  /** In steps, so that what is awaited between them happens. */
  const pass = async (ms: number): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50)
      for (let i = 0; i < 5; i += 1) await Promise.resolve()
    }
  }
  return { checker, clock, outcome, started, turned, now, pass }
}

t.test('a thousand are checked within an interval, not at once', async t => {
  const { checker, started, pass, now } = setUp(t)
  checker.set(targets(1000))
  await pass(2100)
  t.equal(new Set(started.map(({ port }) => port)).size, 1000)
  t.ok(now.most <= 60, `${now.most} at once`)
  const inFirst = started.filter(({ at }) => at <= 100).length
  t.ok(inFirst <= 60, `${inFirst} in the first tenth of a second`)
})

t.test('one is checked at once, then every two seconds', async t => {
  const { checker, started, pass } = setUp(t)
  checker.set(targets(1))
  await pass(6100)
  t.same(
    started.map(({ at }) => at),
    [0, 2000, 4000, 6000],
  )
})

t.test('who turns is told, with the reason', async t => {
  const { checker, outcome, turned, pass } = setUp(t)
  checker.set(targets(2))
  await pass(200)
  t.match(checker.healthOf('1'), { up: true, isKnown: true, reason: '', host: '' })
  t.ok((checker.healthOf('1')?.forMs ?? 0) > 0)
  outcome.set(2, failed('HTTP status 503, expected 200'))
  await pass(5000)
  t.same(turned, ['1 down: HTTP status 503, expected 200'])
  outcome.delete(2)
  await pass(5000)
  t.same(turned.slice(1), ['1 up'])
  t.equal(checker.healthOf('9'), undefined)
})

t.test('one that says that it is not what is asked for is known in 3 s', async t => {
  const { checker, outcome, turned, pass } = setUp(t)
  checker.set(targets(3))
  await pass(100)
  for (const port of [1, 2, 3]) outcome.set(port, denied('HTTP status 503'))
  await pass(2800)
  t.same(turned.length, 3)
})

t.test('the set of targets changes', async t => {
  const { checker, outcome, started, turned, pass } = setUp(t, { takesMs: 200 })
  const [first, second] = targets(2) as [CheckTarget, CheckTarget]
  outcome.set(1, failed('gone'))
  checker.set([first])
  await pass(300)
  t.same(turned, ['0 down: gone'])
  checker.set([{ ...first }, second])
  t.equal(checker.healthOf('0')?.up, false, 'what is known of one that stays, stays')
  await pass(300)
  t.equal(started.filter(({ port }) => port === 2).length, 1)
  checker.set([second])
  t.equal(checker.healthOf('0'), undefined)
  const before = started.length
  await pass(5000)
  t.ok(started.slice(before).every(({ port }) => port === 2))
  checker.set([{ ...second, host: 'db' }])
  t.equal(checker.healthOf('1')?.isKnown, true, 'by another name it is the same')
  await pass(100)
  checker.set([])
  await pass(300)
  t.same(turned, ['0 down: gone'], 'the check of one that has gone says nothing')
})

t.test('no more are under way than may be, and all have their turn', async t => {
  const { checker, started, now, pass } = setUp(t, { takesMs: 1000, most: 10 })
  checker.set(targets(40))
  await pass(12_000)
  t.equal(now.most, 10)
  const times = Array.from(
    { length: 40 },
    (_, i) => started.filter(({ port }) => port === i + 1).length,
  )
  t.ok(Math.min(...times) >= 2 && Math.max(...times) <= 4, times.join(' '))
})

t.test('a closed one is quiet', async t => {
  const { checker, clock, started, now, pass } = setUp(t, { takesMs: 1000 })
  checker.set(targets(5))
  await pass(100)
  t.equal(now.underWay, 5)
  await checker.close()
  t.equal(now.underWay, 0)
  checker.set(targets(5))
  await pass(5000)
  t.equal(started.length, 5)
  t.equal(clock.waiting, 0)
})
