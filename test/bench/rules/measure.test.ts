import t from 'tap'
import { type Figures, quantile } from '../../../bench/control/figures.ts'
import { parseControlOptions } from '../../../bench/control/options.ts'
import { changeScenarios, startScenarios } from '../../../bench/control/record.ts'
import { controlTargets } from '../../../bench/control/setting.ts'
import type { RuleFigures } from '../../../bench/rules/measure.ts'
import { ruleScenarios } from '../../../bench/rules/record.ts'
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

const figures = (appliedMs: readonly number[], servingMs: number): Figures => ({
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
  requests: 9,
  peakRequestsPerSecond: 4,
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

t.test('rules', async t => {
  const cost = (ms: number) => ({ ms, tools: 1 })
  const found: readonly RuleFigures[] = [
    {
      capture: 'nftables',
      costs: {
        first: [cost(2001)],
        added: [1, 2, 3, 4, 60].map(cost),
        removed: [51, 52, 53].map(cost),
        unchanged: [cost(0.5)],
        endpoint: [cost(0.7)],
      },
      reason: '',
    },
    { capture: 'local', reason: 'ip: not permitted' },
  ]
  const targets = controlTargets(parseControlOptions(['--only', 'rules']))
  const reported = (vips: number): string =>
    ruleScenarios(vips, found)
      .flatMap(scenario => reportScenario(scenario, { targets, yardsticks: [] }))
      .join('\n')

  t.test('have goals at 10 000 VIPs, for the first sync and for a change', async t => {
    const text = reported(10_000)
    t.match(text, 'goal: nftables Time <= 2000 ms: 2,001.00, MISSED')
    t.match(text, 'goal: nftables Time <= 50 ms: 3.00, reached')
    t.match(text, 'goal: nftables Time <= 50 ms: 52.00, MISSED')
    t.match(text, 'goal: iptables (nft) Time <= 4000 ms: -, not measured')
    t.notMatch(reported(1000), 'goal')
  })

  t.test('that change several times are told by median and spread', async t =>
    t.match(reported(1000), /nftables +3\.0 +1\.0\.\.60\.0/),
  )

  t.test('that could not be measured are left out by name, once', async t =>
    t.equal(reported(1000).split('left out: local: ip: not permitted').length, 2),
  )

  t.test('of which none could be measured are a single scenario', async t =>
    t.same(
      ruleScenarios(1000, found.slice(1)).map(({ name }) => name),
      ['rules-first-1000'],
    ),
  )
})
