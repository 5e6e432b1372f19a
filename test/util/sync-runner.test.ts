import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import * as fc from 'fast-check'
import t from 'tap'
import { SyncRunner } from '../../src/util/sync-runner.ts'
import { FakeClock } from '../support/fake-clock.ts'

interface Limits {
  readonly minMs: number
  readonly maxMs: number
}

/**
 * A runner whose syncs take `syncMs` of the fake clock and reject when `broken` says so.
 * `runs` are the times at which they began.
 */
class Bench {
  readonly clock = new FakeClock()
  readonly runs: number[] = []
  readonly errors: unknown[] = []
  readonly runner: SyncRunner
  syncMs = 0
  broken = false
  atOnce = 0
  mostAtOnce = 0

  constructor(limits: Limits) {
    this.runner = new SyncRunner({
      clock: this.clock,
      sync: () => this.#sync(),
      failed: error => void this.errors.push(error),
      ...limits,
    })
  }

  async #sync(): Promise<void> {
    this.runs.push(rounded(this.clock.now()))
    this.atOnce += 1
    this.mostAtOnce = Math.max(this.mostAtOnce, this.atOnce)
    if (this.syncMs > 0) {
      await new Promise<void>(done => void this.clock.setTimeout(done, this.syncMs))
    }
    this.atOnce -= 1
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

/** Without the noise of counting tokens in fractions. */
const rounded = (ms: number): number => Math.round(ms * 1e6) / 1e6

t.test('nothing runs before it is asked for', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 1000 })
  await bench.advance(5000)
  t.strictSame(bench.runs, [])
})

t.test('requests at the same moment are answered by one run', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 10_000 })
  for (let i = 0; i < 100; i += 1) bench.runner.request()
  await bench.advance(5000)
  t.strictSame(bench.runs, [0])
})

t.test('two runs may come in a row, the next ones minMs apart', async t => {
  const bench = new Bench({ minMs: 1000, maxMs: 60_000 })
  for (let i = 0; i < 450; i += 1) {
    await bench.request()
    await bench.advance(10)
  }
  t.strictSame(bench.runs, [0, 10, 1000, 2000, 3000, 4000])
})

t.test('a request that waits for its turn takes in those that follow', async t => {
  const bench = new Bench({ minMs: 1000, maxMs: 60_000 })
  await bench.request()
  await bench.request()
  bench.runs.length = 0
  await bench.request()
  await bench.advance(500)
  await bench.request()
  await bench.advance(5000)
  t.strictSame(bench.runs, [1000])
})

t.test('after a rest two may come in a row again, not more', async t => {
  const bench = new Bench({ minMs: 1000, maxMs: 600_000 })
  await bench.request()
  await bench.advance(100_000)
  bench.runs.length = 0
  for (let i = 0; i < 4; i += 1) await bench.request()
  await bench.advance(5000)
  t.strictSame(bench.runs, [100_000, 100_000, 101_000])
})

t.test('without a minimum every request runs at once', async t => {
  const bench = new Bench({ minMs: 0, maxMs: 60_000 })
  for (let i = 0; i < 5; i += 1) await bench.request()
  t.strictSame(bench.runs, [0, 0, 0, 0, 0])
})

t.test('a run comes every maxMs though nobody asks', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 3000 })
  await bench.request()
  await bench.advance(10_000)
  t.strictSame(bench.runs, [0, 3000, 6000, 9000])
})

t.test('a run that was asked for puts the next periodic one off', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 3000 })
  await bench.request()
  await bench.advance(2000)
  await bench.request()
  await bench.advance(3000)
  t.strictSame(bench.runs, [0, 2000, 5000])
})

t.test('a periodic run is one of the two that may come in a row', async t => {
  const bench = new Bench({ minMs: 1000, maxMs: 5000 })
  await bench.request()
  await bench.advance(5000)
  t.strictSame(bench.runs, [0, 5000])
  for (let i = 0; i < 3; i += 1) await bench.request()
  await bench.advance(1500)
  t.strictSame(bench.runs, [0, 5000, 5000, 6000])
})

t.test('requests during a run give exactly one more, which begins after it', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 60_000 })
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
    const bench = new Bench({ minMs: 100, maxMs: 5000 })
    bench.broken = true
    await bench.request()
    await bench.advance(17_500)
    t.strictSame(bench.runs, [0, 500, 1500, 3500, 7500, 12_500, 17_500])
    t.equal(bench.errors.length, 7)
    t.match(bench.errors[0], { message: 'no' })
  },
)

t.test('after a success the pauses begin anew', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 60_000 })
  bench.broken = true
  await bench.request()
  await bench.advance(1500)
  bench.broken = false
  await bench.advance(2000)
  t.strictSame(bench.runs, [0, 500, 1500, 3500])
  bench.broken = true
  await bench.request()
  await bench.advance(1500)
  t.strictSame(bench.runs.slice(4), [3500, 4000, 5000])
})

t.test('a request does not wait for the pause after a failure', async t => {
  const bench = new Bench({ minMs: 100, maxMs: 60_000 })
  bench.broken = true
  await bench.request()
  await bench.advance(4000)
  bench.broken = false
  await bench.advance(1000)
  await bench.request()
  t.strictSame(bench.runs, [0, 500, 1500, 3500, 5000])
})

t.test('repeats of a failed run keep to minMs, and run up no debt', async t => {
  const bench = new Bench({ minMs: 10_000, maxMs: 60_000 })
  bench.broken = true
  await bench.request()
  await bench.advance(20_000)
  bench.broken = false
  t.strictSame(bench.runs, [0, 500, 10_000, 20_000])
  await bench.request()
  await bench.advance(10_000)
  t.strictSame(bench.runs.slice(4), [30_000])
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
    minMs: 0,
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
    const bench = new Bench({ minMs: 100, maxMs: 1000 })
    bench.runner.request()
    bench.runner.close()
    await bench.advance(5000)
    t.strictSame(bench.runs, [])
    t.equal(bench.clock.waiting, 0)
  })

  t.test('makes requests do nothing', async t => {
    const bench = new Bench({ minMs: 100, maxMs: 1000 })
    bench.runner.close()
    await bench.request()
    t.equal(bench.clock.waiting, 0)
    t.strictSame(bench.runs, [])
  })

  for (const broken of [false, true]) {
    t.test(
      `during a run that ${broken ? 'fails' : 'succeeds'} it is the last`,
      async t => {
        const bench = new Bench({ minMs: 100, maxMs: 1000 })
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
    { minMs: 0, maxMs: 1000 },
    { minMs: 300, maxMs: 2000 },
    { minMs: 1000, maxMs: 1000 },
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
      await bench.advance(given.maxMs + 2 * longestSync + given.minMs)
      assert.ok(bench.mostAtOnce <= 1, 'never two at once')
      assertSpaced(bench.runs, given.minMs)
      for (const at of asked) {
        const answer = bench.runs.find(run => run >= at) ?? Infinity
        assert.ok(
          answer - at <= given.minMs + longestSync,
          `asked at ${at}, answered at ${answer}`,
        )
      }
      const [first] = bench.runs
      if (first === undefined) return assert.equal(asked.length, 0)
      for (const [i, run] of bench.runs.entries()) {
        const next = bench.runs[i + 1] ?? bench.clock.now()
        const most = Math.max(given.maxMs, given.minMs) + longestSync
        assert.ok(next - run <= most, `none between ${run} and ${next}`)
      }
    }),
    { numRuns: 150 },
  )
})

/** In any stretch of time there are at most two runs, and one more for each minMs. */
const assertSpaced = (runs: readonly number[], minMs: number): void => {
  if (minMs === 0) return
  for (const [i, from] of runs.entries()) {
    for (const [more, to] of runs.slice(i).entries()) {
      const allowed = 2 + (to - from) / minMs
      assert.ok(more + 1 <= allowed + 1e-6, `${more + 1} runs from ${from} to ${to}`)
    }
  }
}
