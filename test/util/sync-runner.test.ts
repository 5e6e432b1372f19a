import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import * as fc from 'fast-check'
import t from 'tap'
import { SyncRunner } from '../../src/util/sync-runner.ts'
import { FakeClock } from '../support/fake-clock.ts'

interface Limits {
  readonly mostWaitMs: number
  readonly maxMs: number
}

/**
 * A runner whose syncs take `syncMs` of the fake clock and reject when `broken` says so.
 * `runs` are the times at which they began.
 */
class Bench {
  readonly clock = new FakeClock()
  readonly limits: Limits
  readonly runs: number[] = []
  /** What each cost: of it and the one before the shorter; undefined when it failed. */
  readonly costs: (number | undefined)[] = []
  readonly errors: unknown[] = []
  #lastTook = Infinity
  readonly runner: SyncRunner
  syncMs = 0
  broken = false
  atOnce = 0
  mostAtOnce = 0

  constructor(limits: Limits) {
    this.limits = limits
    this.runner = new SyncRunner({
      clock: this.clock,
      sync: () => this.#sync(),
      failed: error => void this.errors.push(error),
      ...limits,
    })
  }

  async #sync(): Promise<void> {
    const started = this.clock.now()
    this.runs.push(rounded(started))
    this.atOnce += 1
    this.mostAtOnce = Math.max(this.mostAtOnce, this.atOnce)
    if (this.syncMs > 0) {
      await new Promise<void>(done => void this.clock.setTimeout(done, this.syncMs))
    }
    this.atOnce -= 1
    const took = this.clock.now() - started
    this.costs.push(this.broken ? undefined : Math.min(took, this.#lastTook))
    if (!this.broken) this.#lastTook = took
    if (this.broken) throw new Error('no')
  }

  /** Lets the time go by in steps, so that what a run sets off is in time. */
  async advance(ms: number, step = 50): Promise<void> {
    for (let gone = 0; gone < ms; gone += step) {
      this.clock.advance(Math.min(step, ms - gone))
      await turn()
    }
  }

  /** Asks, and lets a run that may begin at once do so. */
  async request(): Promise<void> {
    this.runner.request()
    this.clock.advance(0)
    await turn()
  }
}

/** Without the noise of fractions. */
const rounded = (ms: number): number => Math.round(ms * 1e6) / 1e6

t.test('nothing runs before it is asked for', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 1000 })
  await bench.advance(5000)
  t.strictSame(bench.runs, [])
})

t.test('requests at the same moment are answered by one run', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 10_000 })
  for (let i = 0; i < 100; i += 1) bench.runner.request()
  await bench.advance(5000)
  t.strictSame(bench.runs, [0])
})

t.test('cheap ones run as soon as they are asked for, 10 ms apart', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
  for (let i = 0; i < 1000; i += 1) {
    await bench.request()
    await bench.advance(5)
  }
  t.strictSame(bench.runs.slice(0, 4), [0, 10, 20, 30])
  t.equal(bench.runs.length, 501)
})

const storms: readonly [syncMs: number, inRow: number, thenEveryMs: number][] = [
  [20, 52, 400],
  [40, 26, 800],
  [100, 10, 1000],
]
for (const [syncMs, inRow, thenEveryMs] of storms)
  t.test(
    `runs of ${syncMs} ms come one after the other for a second, then are waited for`,
    async t => {
      const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
      bench.syncMs = syncMs
      for (let i = 0; i < 1000; i += 1) {
        bench.runner.request(i % 2 === 0)
        await bench.advance(20, 10)
      }
      const waits = bench.runs.slice(1).map((run, i) => run - (bench.runs[i] ?? 0))
      const slow = waits.findIndex(wait => wait > 3 * syncMs)
      t.equal(slow, inRow)
      t.strictSame([...new Set(waits.slice(slow + 2, -1))], [thenEveryMs])
    },
  )

t.test('a rest gives back what it would have paid for', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 600_000 })
  bench.syncMs = 100
  const inRow = async (): Promise<number> => {
    const before = bench.runs.length
    for (let i = 0; i < 30; i += 1) {
      await bench.request()
      await bench.advance(100)
    }
    return bench.runs.length - before
  }
  const first = await inRow()
  await bench.advance(6000)
  const afterRest = await inRow()
  await bench.advance(60_000)
  t.strictSame([first, afterRest, await inRow()], [13, 6, 13])
})

t.test('one run that was held up costs no more than the one before', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
  await bench.request()
  await bench.advance(100)
  bench.syncMs = 10_000
  await bench.request()
  await bench.advance(10_000)
  bench.syncMs = 0
  for (let i = 0; i < 3; i += 1) {
    await bench.request()
    await bench.advance(10)
  }
  t.strictSame(bench.runs, [0, 100, 10_100, 10_110, 10_120])
})

t.test('one that was dear is waited for once', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
  bench.syncMs = 500_000
  await bench.request()
  await bench.advance(500_000, 50_000)
  bench.syncMs = 0
  for (let i = 0; i < 3; i += 1) {
    await bench.request()
    await bench.advance(10)
  }
  t.strictSame(bench.runs, [0, 500_000, 500_010, 500_020])
})

t.test('what can wait has 10 ms for what comes with it, once', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
  for (let i = 0; i < 4; i += 1) {
    bench.runner.request(true)
    await bench.advance(5)
  }
  t.strictSame(bench.runs, [10, 20])
})

t.test('what cannot wait takes in what can', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
  bench.runner.request(true)
  await bench.advance(5)
  await bench.request()
  await bench.advance(1000)
  t.strictSame(bench.runs, [5])
})

t.test(
  'of failed runs two may come in a row, then what is asked for waits for mostWaitMs',
  async t => {
    const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
    bench.broken = true
    for (let i = 0; i < 250; i += 1) {
      await bench.request()
      await bench.advance(10)
    }
    t.strictSame(bench.runs, [0, 10, 1010, 2010])
  },
)

t.test('a request that waits for its turn takes in those that follow', async t => {
  const bench = new Bench({ mostWaitMs: 1000, maxMs: 60_000 })
  bench.syncMs = 700
  await bench.request()
  await bench.advance(700)
  await bench.request()
  await bench.advance(700)
  for (let i = 0; i < 3; i += 1) {
    await bench.request()
    await bench.advance(50)
  }
  await bench.advance(5000)
  t.strictSame(bench.runs, [0, 700, 1700])
})

t.test('where it never waits every request runs at once', async t => {
  const bench = new Bench({ mostWaitMs: 0, maxMs: 60_000 })
  for (let i = 0; i < 5; i += 1) await bench.request()
  t.strictSame(bench.runs, [0, 0, 0, 0, 0])
})

t.test('a run comes every maxMs though nobody asks', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 3000 })
  await bench.request()
  await bench.advance(10_000)
  t.strictSame(bench.runs, [0, 3000, 6000, 9000])
})

t.test('a run that was asked for puts the next periodic one off', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 3000 })
  await bench.request()
  await bench.advance(2000)
  await bench.request()
  await bench.advance(3000)
  t.strictSame(bench.runs, [0, 2000, 5000])
})

t.test('requests during a run give exactly one more, which begins after it', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 60_000 })
  bench.syncMs = 500
  await bench.request()
  for (let i = 0; i < 3; i += 1) {
    await bench.request()
    await bench.advance(100)
  }
  await bench.advance(5000)
  t.strictSame(bench.runs, [0, 500])
})

t.test(
  'a failed run is told and repeated after 0.5, 1, 2 ... s, at most maxMs',
  async t => {
    const bench = new Bench({ mostWaitMs: 100, maxMs: 5000 })
    bench.broken = true
    await bench.request()
    await bench.advance(17_500)
    t.strictSame(bench.runs, [0, 500, 1500, 3500, 7500, 12_500, 17_500])
    t.equal(bench.errors.length, 7)
    t.match(bench.errors[0], { message: 'no' })
  },
)

t.test('after a success the pauses begin anew', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 60_000 })
  bench.broken = true
  await bench.request()
  await bench.advance(1500)
  bench.broken = false
  await bench.advance(2000)
  t.strictSame(bench.runs, [0, 500, 1500, 3500])
  bench.broken = true
  await bench.request()
  await bench.advance(1500)
  t.strictSame(bench.runs.slice(4), [3510, 4050])
})

t.test('a request does not wait for the pause after a failure', async t => {
  const bench = new Bench({ mostWaitMs: 100, maxMs: 60_000 })
  bench.broken = true
  await bench.request()
  await bench.advance(4000)
  bench.broken = false
  await bench.advance(1000)
  await bench.request()
  t.strictSame(bench.runs, [0, 500, 1500, 3500, 5000])
})

t.test('repeats of a failed run keep to mostWaitMs, and run up no debt', async t => {
  const bench = new Bench({ mostWaitMs: 10_000, maxMs: 60_000 })
  bench.broken = true
  await bench.request()
  await bench.advance(20_000)
  bench.broken = false
  t.strictSame(bench.runs, [0, 500, 10_500])
  await bench.request()
  await bench.advance(20_000)
  t.strictSame(bench.runs.slice(3), [20_500])
})

t.test('a sync that throws instead of rejecting is a failed run', async t => {
  const clock = new FakeClock()
  const errors: unknown[] = []
  const runner = new SyncRunner({
    clock,
    sync: () => {
      throw new Error('thrown')
    },
    failed: error => void errors.push(error),
    mostWaitMs: 0,
    maxMs: 1000,
  })
  runner.request()
  clock.advance(0)
  await turn()
  t.match(errors, [{ message: 'thrown' }])
  t.equal(clock.waiting, 1, 'and will be repeated')
})

t.test('close', async t => {
  t.test('calls off what was to come', async t => {
    const bench = new Bench({ mostWaitMs: 100, maxMs: 1000 })
    bench.runner.request()
    bench.runner.close()
    await bench.advance(5000)
    t.strictSame(bench.runs, [])
    t.equal(bench.clock.waiting, 0)
  })

  t.test('makes requests do nothing', async t => {
    const bench = new Bench({ mostWaitMs: 100, maxMs: 1000 })
    bench.runner.close()
    await bench.request()
    t.equal(bench.clock.waiting, 0)
    t.strictSame(bench.runs, [])
  })

  for (const broken of [false, true]) {
    t.test(
      `during a run that ${broken ? 'fails' : 'succeeds'} it is the last`,
      async t => {
        const bench = new Bench({ mostWaitMs: 100, maxMs: 1000 })
        bench.syncMs = 100
        bench.broken = broken
        await bench.request()
        await bench.request()
        bench.runner.close()
        await bench.advance(5000)
        t.strictSame(bench.runs, [0])
        t.equal(bench.clock.waiting, 0)
      },
    )
  }
})

t.test('whatever comes, the promises of the runner hold', async () => {
  const act = fc.oneof(
    { weight: 4, arbitrary: fc.record({ wait: fc.constantFrom(50, 100, 500, 1500) }) },
    { weight: 3, arbitrary: fc.constant('request' as const) },
    { weight: 1, arbitrary: fc.constant('break' as const) },
    { weight: 1, arbitrary: fc.constant('mend' as const) },
    { weight: 1, arbitrary: fc.record({ syncMs: fc.constantFrom(0, 50, 700) }) },
  )
  const limits = fc.constantFrom<Limits[]>(
    { mostWaitMs: 0, maxMs: 1000 },
    { mostWaitMs: 300, maxMs: 2000 },
    { mostWaitMs: 1000, maxMs: 1000 },
  )
  await fc.assert(
    fc.asyncProperty(limits, fc.array(act, { maxLength: 40 }), async (given, acts) => {
      const bench = new Bench(given)
      const asked: number[] = []
      for (const one of acts) {
        if (one === 'request') {
          asked.push(bench.clock.now())
          bench.runner.request()
          await turn()
        } else if (one === 'break' || one === 'mend') bench.broken = one === 'break'
        else if ('wait' in one) await bench.advance(one.wait)
        else bench.syncMs = one.syncMs
      }
      const longestSync = 700
      await bench.advance(given.maxMs + 2 * longestSync + given.mostWaitMs)
      assert.ok(bench.mostAtOnce <= 1, 'never two at once')
      assertSpaced(bench)
      for (const at of asked) {
        const answer = bench.runs.find(run => run >= at) ?? Infinity
        assert.ok(
          answer - at <= given.mostWaitMs + longestSync,
          `asked at ${at}, answered at ${answer}`,
        )
      }
      const [first] = bench.runs
      if (first === undefined) return assert.equal(asked.length, 0)
      for (const [i, run] of bench.runs.entries()) {
        const next = bench.runs[i + 1] ?? bench.clock.now()
        const most = Math.max(given.maxMs, given.mostWaitMs) + longestSync
        assert.ok(next - run <= most, `none between ${run} and ${next}`)
      }
    }),
    { numRuns: 150 },
  )
})

/** A run is waited for until it has cost no more than its share of the time, with a second to begin with. */
const assertSpaced = ({ runs, costs, limits: { mostWaitMs } }: Bench): void => {
  let credit = 1000
  for (const [i, at] of runs.entries()) {
    const next = runs[i + 1]
    if (next === undefined) return
    credit -= costs[i] ?? 1000
    const waited = next - at
    const earned = credit + waited / 20
    const isPaid = earned >= -1e-6 && waited >= Math.min(10, mostWaitMs)
    assert.ok(isPaid || waited >= mostWaitMs, `a run at ${next}, after one at ${at}`)
    credit = Math.min(1000, Math.max(0, earned))
  }
}
