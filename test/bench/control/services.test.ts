import t from 'tap'
import { parseControlOptions } from '../../../bench/control/options.ts'
import { quantile } from '../../../bench/control/record.ts'
import {
  type ChangeFigures,
  changeScenarios,
  type StartFigures,
  startScenarios,
} from '../../../bench/control/services.ts'
import { reportScenario, summary } from '../../../bench/report/terminal.ts'
import { preciseTime } from '../../support/api-server/seed.ts'
import { smallRun } from '../small-run.ts'

t.test('the defaults are those of the goal', async t => {
  t.match(parseControlOptions([]), {
    services: 10_000,
    endpointsPerSlice: 10,
    changesPerSecond: 100,
    seconds: 60,
    user: 'token',
    streamingLists: true,
    output: 'results',
  })
})

for (const [argv, message] of [
  [['--services', '0'], /--services 0: want a whole number from 1 to 60000/],
  [['--endpoints', '61'], /--endpoints 61: want a whole number from 1 to 60/],
  [['--seconds', '1.5'], /--seconds 1.5/],
  [['--output='], /--output: want the name of a folder/],
  [['--nonsense'], /nonsense/],
] as const)
  t.test(`${argv.join(' ')} is refused`, async t => {
    t.throws(() => parseControlOptions(argv), { message })
  })

t.test('a quantile is the value below which that share lies', async t => {
  const hundred = Array.from({ length: 100 }, (_, i) => 100 - i)
  t.equal(quantile(hundred, 0.5), 51)
  t.equal(quantile(hundred, 0.99), 100)
  t.equal(quantile(hundred, 1), 100)
  t.equal(quantile([], 0.5), undefined)
})

t.test('a trigger time keeps its microseconds', async t => {
  t.equal(preciseTime(1_700_000_000_123.456), '2023-11-14T22:13:20.123456Z')
  t.equal(preciseTime(1_700_000_000_000), '2023-11-14T22:13:20.000000Z')
})

const phase = {
  cpuSeconds: 1,
  peakRssBytes: 300e6,
  longestBlockMs: 12,
  livezMs: [1, 2],
  othersCores: 0,
}

interface Figures extends ChangeFigures {
  readonly start: StartFigures
}

const figures = (appliedMs: number[], servingMs: number): Figures => ({
  start: { ...phase, servingMs, loadingBlockMs: 80, settledRssBytes: 200e6 },
  churn: {
    ...phase,
    changes: 2,
    appliedMs,
    syncs: 2,
    probedMs: [],
    cpuShare: 0.1,
    rssBytes: 250e6,
  },
  requests: { count: 9, peakPerSecond: 4 },
  complaints: ['{"level":"warn"}'],
})

const terminal = (found: Figures): string => {
  const options = parseControlOptions([])
  const scenarios = [
    ...startScenarios(found.start, options),
    ...changeScenarios(found, options),
  ]
  const record = { ...smallRun, yardsticks: [], scenarios }
  return [
    ...scenarios.flatMap(scenario => reportScenario(scenario, record)),
    ...summary(record),
  ].join('\n')
}

t.test('the control plane is told with its goals', async t => {
  const good = terminal(figures([3, 4], 2500))
  t.match(good, 'goal: usher Start to serving <= 10 s: 2.500, reached')
  t.match(good, 'goal: usher 99 of 100 <= 50 ms: 4.00, reached')
  t.match(good, 'MIND usher said')
  t.match(good, '2 of 2 changes seen, taken in by 2 syncs.')
  t.match(good, 'Goals: 5 reached, 0 MISSED, 0 not measured')
  const bad = terminal(figures([3, 80], 12_000))
  t.match(bad, 'goal: usher Start to serving <= 10 s: 12.000, MISSED')
  t.match(bad, 'goal: usher 99 of 100 <= 50 ms: 80.00, MISSED')
})

t.test('changes that nobody saw leave their goal unmeasured', async t => {
  const none = terminal(figures([], 1))
  t.match(none, 'goal: usher 99 of 100 <= 50 ms: -, not measured')
  t.match(none, 'usher: ERROR change not seen (2 times)')
})

t.test(
  'each move of the endpoint is a round, and one that never came failed',
  async t => {
    const found = figures([3, 4], 1)
    const churn = { ...found.churn, probedMs: [10, Infinity, 30] }
    const text = terminal({ ...found, churn })
    t.match(text, /usher +20\.0 +10\.0\.\.30\.0/)
    t.match(
      text,
      'usher: RUN FAILED no connection went to the new endpoint in time (once)',
    )
  },
)

t.test('figures taken while other programs were busy are put in doubt', async t => {
  const found = figures([3, 4], 1)
  const start = { ...found.start, othersCores: 0.4 }
  t.match(terminal({ ...found, start }), 'IN DOUBT, other programs used 0.40 cores')
})
