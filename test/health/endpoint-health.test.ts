import * as fc from 'fast-check'
import t from 'tap'
import {
  type CheckOutcome,
  denied,
  failed,
  passed,
  usualRules,
} from '../../src/health/check.ts'
import { EndpointHealth } from '../../src/health/endpoint-health.ts'

const notChecked: CheckOutcome = { ok: false, reason: 'no descriptors', here: true }

/** What each letter of a story is: a check passed, failed, was answered by no, or not made. */
const outcomes: Readonly<Record<string, CheckOutcome>> = {
  y: passed,
  n: failed('refused'),
  a: denied('HTTP status 503'),
  x: notChecked,
}

/** After each check of a story u or d; random() is a half, so that there is no jitter. */
const tell = (
  story: string,
  rules = usualRules,
  random = 0.5,
): { states: string; pauses: readonly number[] } => {
  const health = new EndpointHealth(rules, 0, () => random)
  let states = health.up ? 'u' : 'd'
  const pauses: number[] = []
  for (const letter of story) {
    const now = health.dueAt
    health.started(now)
    health.finished(outcomes[letter] ?? passed, now + 1)
    states += health.up ? 'u' : 'd'
    pauses.push(health.dueAt - now)
  }
  return { states, pauses }
}

t.test('an endpoint turns by its checks', async t => {
  const down = { ...usualRules, init: 'down' } as const
  const table = [
    ['the first decides at once', 'n', usualRules, 'ud'],
    ['also where it is down before', 'y', down, 'du'],
    ['and where it is as was taken', 'yn', down, 'duu'],
    ['three failures in a row', 'ynnn', usualRules, 'uuuud'],
    ['a success between begins anew', 'ynnynnn', usualRules, 'uuuuuuud'],
    ['two successes in a row', 'nyy', usualRules, 'uddu'],
    ['a failure between begins anew', 'nynyy', usualRules, 'uddddu'],
    ['a check not made says nothing', 'xynxnxn', usualRules, 'uuuuuuud'],
    ['one of each', 'nyny', { ...usualRules, fall: 1, rise: 1 }, 'ududu'],
  ] as const
  for (const [what, story, rules, states] of table)
    t.equal(tell(story, rules).states, states, what)
})

t.test('a turn is told, and a first check that finds it down', async t => {
  const down = { ...usualRules, init: 'down' } as const
  const table = [
    ['up as was taken', 'y', usualRules, 'no'],
    ['down at first', 'nn', usualRules, 'yes,no'],
    ['down as was taken', 'nn', down, 'yes,no'],
    ['up though it was not taken so', 'y', down, 'yes'],
    ['not asked', 'xn', down, 'no,yes'],
    ['down after it was up', 'ynnn', down, 'yes,no,no,yes'],
  ] as const
  for (const [what, story, rules, told] of table) {
    const health = new EndpointHealth(rules, 0, () => 0.5)
    const said = story.split('').map((letter, now) => {
      health.started(now)
      return health.finished(outcomes[letter] ?? passed, now) ? 'yes' : 'no'
    })
    t.equal(said.join(), told, what)
  }
})

t.test('it knows since when it is what it is', async t => {
  const health = new EndpointHealth(usualRules, 0, () => 0.5)
  const since = 'xyynnnny'.split('').map((letter, now) => {
    health.finished(outcomes[letter] ?? passed, now)
    return health.since
  })
  t.strictSame(since, [undefined, 1, 1, 1, 1, 5, 5, 5])
})

t.test('checks come faster while it changes', async t => {
  t.same(tell('ynnnyy').pauses, [2000, 1000, 1000, 2000, 1000, 2000])
  const slow = { ...usualRules, intervalMs: 500 }
  t.same(tell('ynn', slow).pauses, [500, 500, 500], 'never slower than usual')
})

t.test('one that has answered no is asked again at once', async t => {
  t.same(tell('yaaaa').pauses, [2000, 200, 200, 2000, 2000], 'until it has turned')
  t.same(
    tell('yaxnya').pauses,
    [2000, 200, 200, 1000, 2000, 200],
    'not when it is silent',
  )
  t.same(tell('yaaaya').pauses.slice(4), [1000, 2000], 'nor when it comes back')
  const rare = { ...usualRules, intervalMs: 60_000 }
  t.same(tell('ya', rare).pauses, [60_000, 1000], 'nor later than one that is silent')
  const { states, pauses } = tell('yaaa', usualRules, 1 - Number.EPSILON)
  t.equal(states, 'uuuud')
  const [first = 0, ...others] = pauses.slice(0, 3).map(Math.round)
  t.same(
    [first, ...others],
    [2200, 220, 220],
    'with 100 ms that each may start later, below 3 s to know a primary that was',
  )
})

t.test('the next check waits for the one before', async t => {
  const health = new EndpointHealth(usualRules, 100, () => 0.5)
  t.equal(health.dueAt, 100)
  health.started(100)
  t.equal(health.dueAt, Number.POSITIVE_INFINITY)
  health.finished(failed('late'), 5000)
  t.equal(health.dueAt, 5000)
  t.same([health.reason, health.isKnown], ['late', true])
})

const storyArbitrary = fc
  .array(fc.constantFrom('y', 'n', 'a', 'x'), { maxLength: 60 })
  .map(letters => letters.join(''))

t.test('whatever happens', async t => {
  t.test('it turns only after as many in a row as the rules say', async () => {
    const counts = fc.integer({ min: 1, max: 5 })
    fc.assert(
      fc.property(storyArbitrary, counts, counts, (story, fall, rise) => {
        const { states } = tell(story, { ...usualRules, fall, rise })
        const real = story
          .replaceAll('a', 'n')
          .split('')
          .flatMap((letter, i) => (letter === 'x' ? [] : [{ letter, i }]))
        return real.every(({ letter, i }, n) => {
          if (n === 0) return states[i + 1] === (letter === 'y' ? 'u' : 'd')
          const turned = states[i + 1] !== states[i]
          const most = letter === 'y' ? rise : fall
          const row = real.slice(Math.max(0, n + 1 - most), n + 1)
          const whole = row.length === most && row.every(one => one.letter === letter)
          const against = states[i] === (letter === 'y' ? 'd' : 'u')
          return turned ? whole && against : !(whole && against)
        })
      }),
    )
  })

  t.test('the pause is within a tenth of what it should be', async () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        random => {
          const health = new EndpointHealth(usualRules, 0, () => random)
          health.started(0)
          health.finished(passed, 1)
          return health.dueAt >= 1800 && health.dueAt <= 2200
        },
      ),
    )
  })
})
