import t from 'tap'
import {
  expectedSeconds,
  measureScenario,
  type Measuring,
  type Plan,
} from '../../bench/measure.ts'
import type { Sample } from '../../bench/record/record.ts'
import type { Run, Scenario } from '../../bench/scenarios/scenario.ts'
import { NotOffered } from '../../bench/stage.ts'
import { direct } from '../../bench/targets/direct.ts'
import type { RunningTarget, Target } from '../../bench/targets/target.ts'

const sample: Sample = { figures: { rate: 1 }, errors: {} }

const scenario: Scenario = {
  name: 'requests-1',
  group: 'requests',
  title: 'requests',
  about: '',
  metrics: [],
  expectedSeconds: window => window + 1,
  run: async () => sample,
}

const named = (name: string): Target => ({ ...direct, name })

const plan: Plan = {
  scenarios: [scenario],
  targets: ['a', 'b', 'c'].map(named),
  rounds: 2,
  seconds: 1.5,
}

type OnRun = (name: string, seconds: number) => void | Promise<void>

/** A stage on which every target is ready, unless `onReady` throws. */
const measuringWith = (
  onRun: OnRun,
  onReady: (name: string) => void = () => undefined,
) => {
  const interrupt = new AbortController()
  const measured = {
    ...scenario,
    run: async ({ target, seconds }: Run) => {
      await onRun(target.name, seconds)
      return sample
    },
  }
  const measuring: Measuring = {
    plan,
    progress: { step: () => undefined },
    signal: interrupt.signal,
    stage: {
      release: async () => undefined,
      ready: async (_, { name }) => {
        onReady(name)
        return {} as RunningTarget
      },
      runOf: (target, seconds) => ({ target, seconds }) as unknown as Run,
    },
  }
  return { measured, measuring, interrupt }
}

t.test('targets are measured by turns, after a shorter warm-up of each', async t => {
  const order: string[] = []
  const { measured, measuring } = measuringWith(
    (name, s) => void order.push(`${name} ${s}`),
  )
  const { outcomes } = await measureScenario(measured, measuring)
  // In each round one turn each, whatever the order.
  const turns = [0, 3, 6].map(from => order.slice(from, from + 3).toSorted())
  const round = ['a 1.5', 'b 1.5', 'c 1.5']
  t.strictSame(turns, [['a 0.5', 'b 0.5', 'c 0.5'], round, round])
  t.equal(order.length, 9)
  t.strictSame(
    outcomes.map(outcome => outcome.round),
    [-1, -1, -1, 0, 0, 0, 1, 1, 1],
  )
})

t.test('what has just been started has no warm-up', async t => {
  const order: string[] = []
  const { measured, measuring } = measuringWith(name => void order.push(name))
  await measureScenario({ ...measured, fresh: true }, measuring)
  const turns = [order.slice(0, 3), order.slice(3)].map(turn => turn.toSorted().join(''))
  t.strictSame(turns, ['abc', 'abc'])
})

t.test('a run that fails is recorded, and the rest goes on', async t => {
  const { measured, measuring } = measuringWith((name, seconds) => {
    if (name === 'b' && seconds > 1) throw new Error('gone')
  })
  const { outcomes, leftOut } = await measureScenario(measured, measuring)
  t.strictSame(
    outcomes.filter(one => 'failure' in one),
    [0, 1].map(round => ({ target: 'b', round, failure: 'gone' })),
  )
  t.equal(outcomes.length, 9)
  t.strictSame(leftOut, [])
})

t.test('what does not start is left out once, and the rest goes on', async t => {
  let tries = 0
  const { measured, measuring } = measuringWith(
    () => undefined,
    name => {
      if (name !== 'b') return
      tries += 1
      throw new Error('no such file')
    },
  )
  const { outcomes, leftOut } = await measureScenario(measured, measuring)
  t.equal(tries, 1)
  t.strictSame(leftOut, [{ name: 'b', why: 'no such file', failed: true }])
  t.equal(outcomes.filter(({ target }) => target === 'b').length, 0)
  t.equal(outcomes.length, 6)
})

t.test('what a target does not offer is no failure', async t => {
  const { measured, measuring } = measuringWith(name => {
    if (name === 'c') throw new NotOffered('it carries no UDP')
  })
  const { outcomes, leftOut } = await measureScenario(measured, measuring)
  t.ok(outcomes.every(outcome => 'sample' in outcome))
  t.strictSame(leftOut, [{ name: 'c', why: 'it carries no UDP' }])
})

t.test('interrupted, it keeps what there is and adds no failure', async t => {
  let runs = 0
  const { measured, measuring, interrupt } = measuringWith(() => {
    runs += 1
    if (runs < 5) return
    interrupt.abort()
    throw new Error('interrupted')
  })
  const { outcomes, leftOut } = await measureScenario(measured, measuring)
  t.equal(runs, 5)
  t.equal(outcomes.length, 4)
  t.ok(outcomes.every(outcome => 'sample' in outcome))
  t.strictSame(leftOut, [])
})

t.test('a preparation that fails leaves all out, with the reason', async t => {
  const { measured, measuring } = measuringWith(() => void t.fail('nothing is to run'))
  const prepare = () => Promise.reject(new Error('no capacity'))
  const { leftOut } = await measureScenario({ ...measured, prepare }, measuring)
  t.strictSame(leftOut, [{ name: 'all', why: 'no capacity', failed: true }])
})

t.test('a plan is expected to take its windows and its warm-ups', async t =>
  t.equal(expectedSeconds(plan), 3 * (2 * 2.5 + 1.5)),
)
