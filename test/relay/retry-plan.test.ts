import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { type NextStep, RetryPlan } from '../../src/relay/retry-plan.ts'

interface Target {
  readonly key: string
}
type Step = NextStep<Target>

const ladder = [250, 500, 1000, 2000]
const budget = 3750

/** A plan over endpoints that come and go, and what it said so far. */
class Drive {
  readonly present: string[]
  readonly plan: RetryPlan<Target>
  readonly said: string[] = []
  now = 0
  /** When `timer` is to be called. */
  due = 0
  over = false

  constructor(present: string, random: () => number = () => 0.5) {
    this.present = Array.from(present)
    const pick = (tried: ReadonlySet<string>): Target | undefined => {
      const key = this.present.find(one => !tried.has(one))
      return key === undefined ? undefined : { key }
    }
    this.plan = new RetryPlan(ladder, 0, pick, random)
    this.take(this.plan.start(0))
  }

  take(step: Step): Step {
    if (step.action === 'give-up') {
      this.over = true
      this.say('gave up')
    } else {
      this.due = this.now + step.ms
      this.say(step.action === 'dial' ? step.endpoint.key : `wait ${step.ms}`)
    }
    return step
  }

  say(what: string): void {
    this.said.push(`${this.now} ${what}`)
    assert.ok(this.said.length < 1000, 'it comes to an end')
  }

  timer(): Step {
    this.now = this.due
    return this.take(this.plan.timer(this.now))
  }

  fails(key: string, after = 0): Step {
    this.now += after
    return this.take(this.plan.failed(key, this.now))
  }

  failsLocally(key: string, after = 0): Step {
    this.now += after
    return this.take(this.plan.failedLocally(key, this.now))
  }
}

t.test('when nobody answers each step starts one attempt beside the others', async t => {
  const drive = new Drive('abcde')
  for (let i = 0; i < 4; i += 1) drive.timer()
  t.strictSame(drive.said, ['0 a', '250 b', '750 c', '1750 d', '3750 gave up'])
  t.equal(drive.plan.cause, 'sC')
})

t.test('a silent endpoint is dialled again when it is the only one', async t => {
  const drive = new Drive('a')
  for (let i = 0; i < 4; i += 1) drive.timer()
  t.strictSame(drive.said, ['0 a', '250 a', '750 a', '1750 a', '3750 gave up'])
})

t.test('a refusal moves on at once and begins the same step anew', async t => {
  const drive = new Drive('abc')
  drive.fails('a', 3)
  drive.timer()
  t.strictSame(drive.said, ['0 a', '3 b', '253 c'])
  t.equal(drive.due, 753)
})

t.test('after a round of refusals there is a pause, and then a new round', async t => {
  const drive = new Drive('ab')
  drive.fails('a', 1)
  drive.fails('b', 1)
  drive.timer()
  drive.fails('a')
  t.strictSame(drive.said, ['0 a', '1 b', '2 wait 50', '52 a', '52 b'])
})

t.test('the pauses double up to 400 ms and end with the budget', async t => {
  const drive = new Drive('a')
  const pauses: number[] = []
  while (!drive.over) {
    const step = drive.fails('a')
    if (step.action === 'wait') pauses.push(step.ms)
    drive.timer()
  }
  t.strictSame(pauses, [50, 100, 200, 400, 400, 400, 400, 400, 400, 400, 400, 200])
  t.equal(drive.now, budget)
  t.equal(drive.plan.cause, 'SC')
})

t.test('a pause is from half to one and a half times as long', async t => {
  const first = [0, 0.25, 0.999].map(random => {
    const step = new Drive('a', () => random).fails('a')
    return step.action === 'wait' ? step.ms : undefined
  })
  t.strictSame(first, [25, 37.5, 74.95])
})

t.test('an attempt that fails during a pause does not make it longer', async t => {
  const drive = new Drive('abc')
  drive.timer()
  drive.timer()
  drive.fails('c', 10)
  drive.fails('b', 10)
  drive.fails('a', 20)
  drive.timer()
  t.strictSame(drive.said.slice(3), [
    '760 wait 50',
    '770 wait 40',
    '790 wait 20',
    '810 a',
  ])
})

t.test('a new round begins with those from whom no answer is awaited', async t => {
  const drive = new Drive('abc')
  drive.timer()
  drive.fails('b', 1)
  drive.fails('c', 1)
  drive.timer()
  drive.fails('b')
  drive.fails('c')
  t.strictSame(drive.said.slice(1), [
    '250 b',
    '251 c',
    '252 wait 50',
    '302 b',
    '302 c',
    '302 wait 100',
  ])
})

t.test('an endpoint that came meanwhile is dialled before any other again', async t => {
  const drive = new Drive('a')
  drive.fails('a')
  drive.present.push('new')
  drive.timer()
  t.strictSame(drive.said, ['0 a', '0 wait 50', '50 new'])
})

t.test('an endpoint that came during a pause is dialled at the next refusal', async t => {
  const drive = new Drive('ab')
  drive.timer()
  drive.fails('b')
  drive.present.push('new')
  drive.fails('a', 10)
  t.strictSame(drive.said.slice(2), ['250 wait 50', '260 new'])
  t.equal(drive.due, 260 + 500, 'for the time of its step')
  t.match(drive.timer(), { action: 'dial', endpoint: { key: 'a' }, ms: 1000 })
})

t.test('an endpoint that went is not dialled again', async t => {
  const drive = new Drive('ab')
  drive.present.shift()
  drive.fails('a')
  drive.fails('b')
  drive.timer()
  t.strictSame(drive.said, ['0 a', '0 b', '0 wait 50', '50 b'])
})

t.test('without endpoints it waits for one to come, and gives up in the end', async t => {
  const drive = new Drive('')
  drive.timer()
  drive.present.push('late')
  drive.timer()
  t.strictSame(drive.said, ['0 wait 50', '50 wait 100', '150 late'])
  const empty = new Drive('')
  while (!empty.over) empty.timer()
  t.equal(empty.now, budget)
  t.equal(empty.plan.cause, 'SC')
})

t.test('a local failure waits and does not mark the endpoint', async t => {
  const drive = new Drive('ab')
  drive.failsLocally('a')
  drive.timer()
  drive.fails('a')
  t.strictSame(drive.said, ['0 a', '0 wait 50', '50 a', '50 b'])
})

t.test('a local failure is a pause even while others are untried', async t => {
  const drive = new Drive('abc')
  t.strictSame(drive.failsLocally('a'), { action: 'wait', ms: 50 })
  drive.timer()
  t.strictSame(drive.failsLocally('a'), { action: 'wait', ms: 100 })
})

/** Fails each attempt as soon as it is made, except those of `silent` endpoints. */
const causeOf = (refusing: string, short: string, silent: string): string => {
  const drive = new Drive(silent + refusing + short)
  let last = drive.present[0]
  while (!drive.over) {
    let step: Step
    if (last !== undefined && refusing.includes(last)) step = drive.fails(last)
    else if (last !== undefined && short.includes(last)) step = drive.failsLocally(last)
    else step = drive.timer()
    last = step.action === 'dial' ? step.endpoint.key : undefined
  }
  return drive.plan.cause
}

t.test('one that is out of reach is left for others at once', async t => {
  const drive = new Drive('ab')
  drive.take(drive.plan.outOfReach('a', 0))
  drive.take(drive.plan.outOfReach('b', 0))
  t.equal(drive.plan.cause, 'RC')
  drive.timer()
  t.strictSame(drive.said, ['0 a', '0 b', '0 wait 50', '50 a'])
})

t.test('also in the one round of a client that waits', async t => {
  const tried: string[] = []
  const pick = (not: ReadonlySet<string>): Target | undefined => {
    const key = ['a', 'b'].find(one => !not.has(one))
    return key === undefined ? undefined : { key }
  }
  const plan = new RetryPlan<Target>([250, 750], 0, pick, () => 0.5, true)
  for (let step = plan.start(0); step.action === 'dial';) {
    tried.push(step.endpoint.key)
    step = plan.outOfReach(step.endpoint.key, 0)
  }
  t.strictSame(tried, ['a', 'b'])
})

t.test('the cause', async t => {
  const cases: [refusing: string, short: string, silent: string, cause: string][] = [
    ['abc', '', '', 'SC'],
    ['', 'abc', '', 'RC'],
    ['', '', 'abc', 'sC'],
    ['ab', 'c', '', 'SC'],
    ['ab', '', 'c', 'sC'],
    ['', 'ab', 'c', 'sC'],
  ]
  for (const [refusing, short, silent, cause] of cases) {
    const who = `refused by '${refusing}', short for '${short}', silence of '${silent}'`
    t.equal(causeOf(refusing, short, silent), cause, who)
  }

  t.test('is a refusal when the silent one refused at last', async t => {
    const drive = new Drive('a')
    drive.timer()
    drive.fails('a')
    drive.fails('a')
    while (!drive.over) {
      const step = drive.timer()
      if (step.action === 'dial') drive.fails('a')
    }
    t.equal(drive.plan.cause, 'SC')
  })
})

t.test(
  'a timer that fires late does not exceed the budget by a further step',
  async t => {
    const drive = new Drive('ab')
    drive.due = 3749
    t.match(drive.timer(), { action: 'dial', ms: 1 })
    drive.due = 3760
    t.match(drive.timer(), { action: 'give-up' })
    const late = new Drive('ab')
    late.due = budget
    t.match(late.timer(), { action: 'give-up' })
  },
)

const jitter = fc.double({ min: 0, max: 0.999, noNaN: true })

t.test('attempts are bounded when everybody refuses at once', async () => {
  fc.assert(
    fc.property(fc.array(jitter, { minLength: 1 }), jitters => {
      let asked = 0
      const drive = new Drive('abc', () => jitters[asked++ % jitters.length] ?? 0)
      let step: Step = { action: 'dial', endpoint: { key: 'a' }, ms: 0 }
      let attempts = 1
      while (!drive.over) {
        step = step.action === 'dial' ? drive.fails(step.endpoint.key) : drive.timer()
        if (step.action === 'dial') attempts += 1
      }
      // With the shortest pauses: 25, 50, 100 and then 200 ms, of which 17.9 fit.
      assert.ok(attempts <= 3 * 22, `${attempts} attempts`)
      assert.ok(drive.now <= budget + 1e-6, `it ended at ${drive.now}`)
    }),
  )
})

/** What is done to a plan; `at` is where in the time that it waits, `which` of how many. */
interface Act {
  readonly kind: 'fail' | 'local' | 'timer' | 'come' | 'go'
  readonly at: number
  readonly which: number
}

const acts = fc.array(
  fc.record<Act>({
    kind: fc.constantFrom('fail', 'fail', 'local', 'timer', 'timer', 'come', 'go'),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    which: fc.nat(100),
  }),
  { maxLength: 60 },
)

/** Drives a plan and keeps books of its own, by which its answers are judged. */
class Judge {
  readonly drive: Drive
  readonly pending: string[] = []
  readonly #tried = new Set<string>()
  #refused = false
  #local = false
  attempts = 0

  constructor(random: () => number) {
    this.drive = new Drive('abc', random)
    this.#dialled('a')
  }

  do({ kind, at, which }: Act): void {
    const { drive, pending } = this
    if (kind === 'come' || kind === 'go') return this.#comeOrGo(kind, which)
    if (kind === 'timer') return this.timer()
    const key = pending[which % pending.length]
    if (key === undefined) return
    pending.splice(pending.indexOf(key), 1)
    const after = Math.max(drive.due - drive.now, 0) * at
    if (kind === 'fail') {
      this.#refused = true
      return this.#judge(drive.fails(key, after))
    }
    this.#local = true
    this.#tried.delete(key)
    const step = drive.failsLocally(key, after)
    assert.notEqual(step.action, 'dial', 'no other is dialled for a lack of our own')
    this.#judge(step)
  }

  timer(): void {
    const { drive, pending } = this
    drive.now = drive.due
    if (drive.present.every(key => this.#tried.has(key))) this.#newRound(pending)
    this.#judge(drive.timer())
  }

  get cause(): string {
    if (this.pending.length > 0) return 'sC'
    return this.#local && !this.#refused ? 'RC' : 'SC'
  }

  #comeOrGo(kind: 'come' | 'go', which: number): void {
    const { present } = this.drive
    const key = 'abcde'[which % 5] ?? 'a'
    if (kind === 'come' && !present.includes(key)) present.push(key)
    if (kind === 'go' && present.includes(key)) present.splice(present.indexOf(key), 1)
  }

  /** All are fair game again, but those that still may answer come last. */
  #newRound(pending: readonly string[]): void {
    this.#tried.clear()
    for (const key of pending) this.#tried.add(key)
    if (this.drive.present.every(key => this.#tried.has(key))) this.#tried.clear()
  }

  #judge(step: Step): void {
    const { drive } = this
    if (step.action === 'give-up') {
      assert.ok(drive.now > budget - 1e-6, `gave up at ${drive.now}`)
      assert.equal(drive.plan.cause, this.cause)
      return
    }
    assert.ok(step.ms >= 0, `${step.ms} ms`)
    assert.ok(drive.due <= budget + 1e-6, `${step.ms} ms from ${drive.now} are too many`)
    if (step.action === 'wait') {
      assert.ok(step.ms <= 600, `a pause of ${step.ms}`)
    } else {
      this.#dialled(step.endpoint.key)
    }
  }

  #dialled(key: string): void {
    this.attempts += 1
    const untried = this.drive.present.filter(one => !this.#tried.has(one))
    assert.ok(untried.includes(key), `${key} though ${untried.join()} were untried`)
    this.#tried.add(key)
    this.pending.push(key)
  }
}

t.test(
  'whatever happens, rounds are fair and the budget is kept to the end',
  async () => {
    fc.assert(
      fc.property(acts, jitter, (list, random) => {
        const judge = new Judge(() => random)
        for (const act of list) if (!judge.drive.over) judge.do(act)
        for (let i = 0; i < 200 && !judge.drive.over; i += 1) judge.timer()
        assert.ok(judge.drive.over, 'it gives up in the end')
      }),
      { numRuns: 2000 },
    )
  },
)
