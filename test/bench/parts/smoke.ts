import { array, assert, integer, property } from 'fast-check'
import t from 'tap'
import { type Known, parseSmokeOptions } from '../../../bench/options.ts'
import { Progress, timeText } from '../../../bench/progress.ts'
import { reportScenario } from '../../../bench/report.ts'
import type { Outcome, ScenarioResult } from '../../../bench/results.ts'
import { expectedSeconds, type Plan, runScenario } from '../../../bench/run.ts'
import type { Sample, Scenario } from '../../../bench/scenarios/scenario.ts'
import { rateSample } from '../../../bench/scenarios/scenario.ts'
import { ratiosByRound, spreadOf } from '../../../bench/statistics.ts'
import { formatTable } from '../../../bench/table.ts'
import { routeFlags } from '../../../bench/targets/command.ts'
import { direct } from '../../../bench/targets/direct.ts'
import type { Target } from '../../../bench/targets/target.ts'
import type { Clock } from '../../../src/util/clock.ts'

const known: Known = {
  scenarios: ['keep-alive', 'udp'],
  targets: ['direct', 'pipe', 'usher'],
}

const scenario: Scenario = {
  name: 'keep-alive',
  title: 'requests',
  unit: 'req/s',
  decimals: 0,
  costUnit: 'us/req',
  backend: 'echo',
  goal: { kind: 'ratio-to-pipe', atLeast: 0.9 },
  expectedSeconds: window => window + 1,
  run: async () => ({ value: 0, errors: {} }),
}

const sampleOf = (value: number, more: Partial<Sample> = {}): Sample => ({
  value,
  errors: {},
  ...more,
})

const outcomes = (target: string, samples: readonly Sample[]): Outcome[] =>
  samples.map((sample, round) => ({ target, round, sample }))

const targetNamed = (name: string): Target => ({ ...direct, name })

const withCores = (generator: number, proxy: number, others = 0): string => {
  const sample = sampleOf(1, { cores: { generator, backend: 0.2, proxy, others } })
  return reported({ scenario, outcomes: outcomes('pipe', [sample]) })
}

const reported = (result: ScenarioResult): string =>
  reportScenario(result, known.targets).join('\n')

t.test('statistics', async t => {
  t.test(
    'an even number of figures has its median between the two in the middle',
    async t => t.same(spreadOf([10, 1, 4, 2]), { median: 3, min: 1, max: 10 }),
  )

  t.test('no figures have no median', async t => t.equal(spreadOf([]), undefined))

  t.test('half of the figures lie on each side of the median, in any order', async () => {
    const figures = array(integer({ min: -1000, max: 1000 }), { minLength: 1 })
    assert(
      property(figures, values => {
        const spread = spreadOf(values)
        if (spread === undefined) return false
        const { median, min, max } = spread
        const below = values.filter(value => value < median).length
        const above = values.filter(value => value > median).length
        return (
          below <= values.length / 2 &&
          above <= values.length / 2 &&
          min === Math.min(...values) &&
          max === Math.max(...values)
        )
      }),
    )
  })

  t.test('ratios pair the same round and leave out rounds with a gap', async t =>
    t.same(
      ratiosByRound([10, 20, undefined, 40, 50], [5, undefined, 5, 80, 0]),
      [2, 0.5],
    ),
  )

  t.test(
    'a count within a window becomes a rate, a cost and cores kept busy',
    async t => {
      const measured = {
        done: 3000,
        seconds: 1.5,
        cpu: { generator: 1.5, backend: 0.75, proxy: 0.3, others: 0.6 },
        errors: { lost: 2 },
      }
      t.same(rateSample(measured, 1, { of: 1, unitsPerSecond: 1e6 }), {
        value: 2000,
        cost: 100,
        cores: { generator: 1, backend: 0.5, proxy: 0.3 / 1.5, others: 0.6 / 1.5 },
        errors: { lost: 2 },
      })
    },
  )

  t.test('nothing done has a rate of zero and no cost', async t => {
    const cpu = { generator: 1, backend: 0, proxy: 0, others: 0 }
    const sample = rateSample({ done: 0, seconds: 1, cpu, errors: {} }, 1, {
      of: 1,
      unitsPerSecond: 1,
    })
    t.match(sample, { value: 0 })
    t.notOk('cost' in sample)
  })
})

t.test('options', async t => {
  t.test('without flags everything is measured in five rounds of 1.5 s', async t =>
    t.same(parseSmokeOptions([], known), {
      rounds: 5,
      seconds: 1.5,
      scenarios: known.scenarios,
      targets: known.targets,
      pin: false,
      help: false,
    }),
  )

  t.test('names are taken once each, in the known order', async t => {
    const options = parseSmokeOptions(
      ['--only', 'udp, keep-alive,udp', '--targets=usher,pipe'],
      known,
    )
    t.same(options.scenarios, ['keep-alive', 'udp'])
    t.same(options.targets, ['pipe', 'usher'])
  })

  t.test('a command is split at white space', async t =>
    t.same(
      parseSmokeOptions(['--usher-command', ' node  my.js sidecar '], known).usherCommand,
      ['node', 'my.js', 'sidecar'],
    ),
  )

  const refused: readonly [string, readonly string[], RegExp][] = [
    [
      'an unknown scenario',
      ['--only', 'tcp'],
      /--only: 'tcp' is none of keep-alive, udp/,
    ],
    ['no target', ['--targets', ''], /--targets: '' is none of/],
    ['half a round', ['--rounds', '1.5'], /--rounds 1.5: want a whole number/],
    ['no rounds', ['--rounds', '0'], /--rounds 0: want a number from 1 to 1000/],
    ['an empty number', ['--seconds', ''], /--seconds : want a number/],
    ['endless seconds', ['--seconds', 'Infinity'], /--seconds Infinity: want/],
    ['an unknown flag', ['--fast'], /--fast/],
    ['an empty command', ['--usher-command', ' '], /--usher-command: want a program/],
  ]
  for (const [what, argv, message] of refused)
    t.test(`${what} is refused by the flag's name`, async t =>
      t.throws(() => parseSmokeOptions(argv, known), { message }),
    )
})

t.test('routes are written as the sidecar takes them', async t => {
  const listen = { echo: 1, 'one-shot': 2, source: 3, sink: 4, 'udp-echo': 5 }
  const backend = { echo: 11, 'one-shot': 12, source: 13, sink: 14, 'udp-echo': 15 }
  const flags = routeFlags(listen, backend)
  t.same(flags.slice(0, 2), ['--route', 'tcp://127.0.0.1:1=127.0.0.1:11'])
  t.same(flags.slice(-2), ['--route', 'udp://127.0.0.1:5=127.0.0.1:15'])
})

t.test('a table has its first column to the left and the others to the right', async t =>
  t.same(
    formatTable([
      ['a', 'long', ''],
      ['bcd', '1', ''],
    ]),
    ['a    long', 'bcd     1'],
  ),
)

t.test('report', async t => {
  t.test('figures, ratios by round, costs and the goal stand side by side', async t => {
    const cores = { generator: 0.5, backend: 0.4, proxy: 1, others: 0.01 }
    const noProxy = { generator: 0.9, backend: 0.8, proxy: undefined, others: 0 }
    const text = reported({
      scenario,
      outcomes: [
        ...outcomes(
          'direct',
          [4000, 2000, 2000].map(value => sampleOf(value, { cores: noProxy })),
        ),
        ...outcomes(
          'pipe',
          [2000, 1000, 1000].map(value => sampleOf(value, { cost: 10, cores })),
        ),
        ...outcomes(
          'usher',
          [1900, 900, 1000].map(value => sampleOf(value, { cost: 12.34, cores })),
        ),
      ],
    })
    t.equal(
      text,
      `keep-alive: requests
  target  req/s      min..max  to direct  to pipe (min..max)  proxy CPU us/req  cores: client  backend  proxy  others
  direct  2,000  2,000..4,000          -                   -                 -           0.90     0.80      -    0.00
  pipe    1,000  1,000..2,000       0.50                   -              10.0           0.50     0.40   1.00    0.01
  usher   1,000    900..1,900       0.47   0.95 (0.90..1.00)              12.3           0.50     0.40   1.00    0.01
  goal: usher/pipe >= 0.9: 0.950, reached`,
    )
  })

  t.test('a ratio below the goal is called missed', async t => {
    const result = {
      scenario,
      outcomes: [
        ...outcomes('pipe', [sampleOf(1000)]),
        ...outcomes('usher', [sampleOf(899)]),
      ],
    }
    t.match(reported(result), 'goal: usher/pipe >= 0.9: 0.899, MISSED')
  })

  t.test('a value above its limit is called missed, and its aside is told', async t => {
    const memory: Scenario = {
      ...scenario,
      decimals: 1,
      unit: 'kB',
      aside: 'in all',
      goal: { kind: 'value', atMost: 12 },
    }
    const text = reported({
      scenario: memory,
      outcomes: outcomes('usher', [sampleOf(12.04, { aside: 20 })]),
    })
    t.match(text, 'goal: usher <= 12 kB: 12.0, MISSED')
    t.match(text, 'usher: 20.0 kB in all')
  })

  t.test('without a pipe to compare with the goal is not measured', async t => {
    const result = { scenario, outcomes: outcomes('usher', [sampleOf(1)]) }
    t.match(reported(result), 'goal: usher/pipe >= 0.9: -, not measured')
  })

  t.test(
    'errors and failed runs are shown with their number, warm-up included',
    async t => {
      const lossy = sampleOf(10, { errors: { ECONNRESET: 1200 } })
      const text = reported({
        scenario,
        outcomes: [
          {
            target: 'pipe',
            round: -1,
            sample: sampleOf(1, { errors: { ECONNRESET: 34 } }),
          },
          { target: 'pipe', round: 0, sample: lossy },
          { target: 'pipe', round: 1, failure: 'gone' },
        ],
      })
      t.match(text, 'pipe: ERROR ECONNRESET (1,234 times)')
      t.match(text, 'pipe: ERROR run failed: gone (1 times)')
      t.match(text, /pipe +10 +10\.\.10/, 'the figure of the warm-up does not count')
    },
  )

  t.test('a generator at its limit is reported only when the proxy is not', async t => {
    t.match(
      withCores(0.95, 0.5),
      'pipe: the generator was the bottleneck (0.95 of a core',
    )
    t.notMatch(withCores(0.95, 0.85), 'bottleneck')
    t.notMatch(withCores(0.85, 0.5), 'bottleneck')
  })

  t.test('figures taken while other programs were busy are put in doubt', async t => {
    t.match(withCores(0.5, 0.5, 0.4), 'pipe: IN DOUBT, other programs used 0.40 cores')
    t.notMatch(withCores(0.5, 0.5, 0.05), 'DOUBT')
  })
})

t.test('a run', async t => {
  const plan: Plan = {
    scenarios: [scenario],
    targets: ['direct', 'pipe'].map(targetNamed),
    rounds: 2,
    seconds: 1.5,
  }
  const silent = { step: () => undefined }
  const never = new AbortController().signal

  t.test('takes the targets by turns, after a shorter warm-up of each', async t => {
    const order: string[] = []
    const stage = {
      start: async () => void t.fail('the targets are running already'),
      run: async (_: Scenario, { name }: Target, seconds: number) => {
        order.push(`${name} ${seconds}`)
        return sampleOf(1)
      },
    }
    const result = await runScenario(plan, scenario, stage, silent, never)
    t.same(order, [
      'direct 0.5',
      'pipe 0.5',
      'direct 1.5',
      'pipe 1.5',
      'direct 1.5',
      'pipe 1.5',
    ])
    t.equal(result.outcomes.length, 6)
  })

  t.test('starts proxies anew where that is asked, and leaves direct out', async t => {
    const order: string[] = []
    const stage = {
      start: async ({ name }: Target) => void order.push(`start ${name}`),
      run: async (_: Scenario, { name }: Target) => {
        order.push(`run ${name}`)
        return sampleOf(1)
      },
    }
    const memory: Scenario = { ...scenario, needsProxy: true, freshProxy: true }
    await runScenario(plan, memory, stage, silent, never)
    t.same(order, ['start pipe', 'run pipe', 'start pipe', 'run pipe'])
  })

  t.test('goes on after a run that fails, and keeps the reason', async t => {
    const stage = {
      start: async () => undefined,
      run: async (_: Scenario, { name }: Target) => {
        if (name === 'pipe') throw new Error('gone')
        return sampleOf(1)
      },
    }
    const result = await runScenario(plan, scenario, stage, silent, never)
    t.match(result.outcomes.at(-2), { target: 'direct', sample: { value: 1 } })
    t.match(result.outcomes.at(-1), { target: 'pipe', failure: 'gone' })
  })

  t.test('that is interrupted keeps what there is and adds no failure', async t => {
    const interrupt = new AbortController()
    let runs = 0
    const stage = {
      start: async () => undefined,
      run: async () => {
        runs += 1
        if (runs < 4) return sampleOf(1)
        interrupt.abort()
        throw new Error('ended')
      },
    }
    const result = await runScenario(plan, scenario, stage, silent, interrupt.signal)
    t.equal(runs, 4)
    t.equal(result.outcomes.length, 3)
    t.ok(result.outcomes.every(outcome => 'sample' in outcome))
  })

  t.test('is expected to take its windows and its warm-ups', async t =>
    t.equal(expectedSeconds(plan), 2 * 2 * 2.5 + 2 * 1.5),
  )
})

t.test('the time left is corrected by how long the steps really took', async t => {
  let now = 0
  const clock: Clock = {
    now: () => now,
    setTimeout: () => ({}),
    clearTimeout: () => undefined,
  }
  const written: string[] = []
  const progress = new Progress(20, { write: text => written.push(text) }, clock)
  progress.step('one', 10)
  now = 20_000
  progress.step('two', 10)
  t.same(written, ['one, 20 s left\n', 'two, 20 s left\n'])
  t.equal(timeText(125), '2 min 05 s')
})
