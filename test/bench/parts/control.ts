import t from 'tap'
import { type Figures, quantile } from '../../../bench/control/figures.ts'
import { parseControlOptions } from '../../../bench/control/options.ts'
import { reportControl } from '../../../bench/control/report.ts'
import { preciseTime } from '../../support/api-server/seed.ts'

t.test('the defaults are those of the goal', async t => {
  t.match(parseControlOptions([]), {
    services: 10_000,
    endpointsPerSlice: 10,
    changesPerSecond: 100,
    seconds: 60,
    user: 'token',
    streamingLists: true,
  })
})

for (const [argv, message] of [
  [['--services', '0'], /--services 0: want a whole number from 1 to 60000/],
  [['--endpoints', '61'], /--endpoints 61: want a whole number from 1 to 60/],
  [['--seconds', '1.5'], /--seconds 1.5/],
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
  start: { ...phase, servingMs, loadingBlockMs: 80 },
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

t.test('the report says which goals were reached', async t => {
  const good = reportControl(figures([3, 4], 2500)).join('\n')
  t.match(good, /start to serving +2\.50 s +10 s: reached/)
  t.match(good, / 4\.0 ms \/ 4\.0 ms \/ 4\.0 ms +p99 50 ms: reached/)
  t.match(good, /MIND usher said/)
  t.notMatch(good, /MISSED/)
  const bad = reportControl(figures([3, 80], 12_000)).join('\n')
  t.match(bad, /10 s: MISSED/)
  t.match(bad, /p99 50 ms: MISSED/)
  t.match(reportControl(figures([], 1)).join('\n'), /p99 50 ms: not measured/)
})
