import t from 'tap'
import {
  linearScale,
  linearTicks,
  logScale,
  logTicks,
  tickTexts,
} from '../../../../bench/report/svg/chart.ts'
import {
  figureChart,
  percentilesOf,
  percentileText,
} from '../../../../bench/report/svg/charts.ts'
import { escaped, fitted } from '../../../../bench/report/svg/drawing.ts'
import { smallRecord } from '../small-record.ts'

t.test('ticks are round, start at zero and reach the largest figure', async t => {
  const cases: readonly (readonly [max: number, ticks: readonly number[]])[] = [
    [0, [0, 1]],
    [NaN, [0, 1]],
    [1, [0, 0.2, 0.4, 0.6, 0.8, 1]],
    [0.3, [0, 0.1, 0.2, 0.3]],
    [7, [0, 2, 4, 6, 8]],
    [11.9, [0, 2.5, 5, 7.5, 10, 12.5]],
    [100, [0, 20, 40, 60, 80, 100]],
    [100.1, [0, 25, 50, 75, 100, 125]],
    [93_594, [0, 20_000, 40_000, 60_000, 80_000, 100_000]],
    [0.000_42, [0, 0.0001, 0.0002, 0.0003, 0.0004, 0.0005]],
  ]
  for (const [max, ticks] of cases) t.strictSame(linearTicks(max, 5), ticks, String(max))
})

t.test('ticks of a logarithmic axis enclose the figures', async t => {
  const cases: readonly (readonly [
    low: number,
    high: number,
    ticks: readonly number[],
  ])[] = [
    [0.2, 4.4, [0.2, 0.5, 1, 2, 5]],
    [0.21, 4.4, [0.2, 0.5, 1, 2, 5]],
    [1, 1, [1, 2]],
    [0.3, 900, [0.3, 1, 3, 10, 30, 100, 300, 1000]],
    [0.02, 9000, [0.01, 0.1, 1, 10, 100, 1000, 10_000]],
  ]
  for (const [low, high, ticks] of cases)
    t.strictSame(logTicks(low, high, 8), ticks, `${low} to ${high}`)
})

t.test('figures of an axis are short and in the same thousands', async t => {
  t.strictSame(tickTexts([0, 2500, 5000]), ['0', '2500', '5000'])
  t.strictSame(tickTexts([0, 5000, 10_000]), ['0', '5k', '10k'])
  t.strictSame(tickTexts([0, 5e6, 1e7]), ['0', '5M', '10M'])
  t.strictSame(tickTexts([0.1, 0.2]), ['0.1', '0.2'])
})

t.test('a scale keeps what is outside at its ends', async t => {
  const linear = linearScale(10, 100, 200)
  t.strictSame([-5, 0, 5, 10, 11].map(linear), [100, 100, 150, 200, 200])
  const log = logScale(1, 100, 0, 50)
  t.strictSame([0, 1, 10, 100, 1000].map(log), [0, 0, 25, 50, 50])
})

t.test('text from outside is escaped, and cut between characters', async t => {
  t.equal(escaped(`<a b="c">&'`), '&#60;a b=&#34;c&#34;&#62;&#38;&#39;')
  t.equal(escaped('a\u0000b\u{1F600}\uD800\tc'), 'a\uFFFDb\u{1F600}\uFFFD\tc')
  t.equal(fitted('usher', 100, 12), 'usher')
  t.equal(fitted('\u{1F600}'.repeat(20), 40, 12), `${'\u{1F600}'.repeat(4)}…`)
})

t.test('a bar is as long as its figure, from zero', async t => {
  const [scenario] = smallRecord.scenarios
  const metric = scenario?.metrics[0]
  if (scenario === undefined || metric === undefined) throw new Error('no scenario')
  const { body } = figureChart(smallRecord, scenario, metric, { width: 400 })
  const lengths = [...body.matchAll(/class="bar"[^>]* width="([\d.]+)"/g)].map(
    ([, text]) => Number(text),
  )
  const [direct = 0, usher = 0] = lengths
  t.equal(lengths.length, 3, 'none for what failed')
  t.ok(direct > 100)
  t.match((usher / direct).toFixed(2), '0.50')
})

t.test('percentiles of the same times belong together, lowest first', async t => {
  const metrics = ['rate', 'p99', 'p50', 'connect p999', 'connect p50', 'late p99'].map(
    name => ({ name, title: name, unit: 'ms', better: 'lower', decimals: 2 }) as const,
  )
  t.strictSame(
    percentilesOf({ metrics }).map(each => [each.of, each.metrics.map(percentileText)]),
    [
      ['', ['p50', 'p99']],
      ['connect', ['p50', 'p99.9']],
    ],
  )
})
