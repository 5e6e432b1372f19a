import { readFileSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { Clock } from '../../../src/util/clock.ts'
import { commandLine } from '../../../bench/header.ts'
import { Progress, timeText } from '../../../bench/measure-all.ts'
import type { Comparison } from '../../../bench/record/compare.ts'
import {
  formatFigure,
  ratioText,
  ratioWithSpread,
  spreadText,
} from '../../../bench/record/findings.ts'
import type { Outcome, RunRecord } from '../../../bench/record/record.ts'
import {
  codeBlock,
  inlineCode,
  markdownReport,
  plain,
} from '../../../bench/report/markdown.ts'
import {
  formatTable,
  introduction,
  reportScenario,
  summary,
  wrapText,
} from '../../../bench/report/terminal.ts'
import { delay, rate, rounds, scenarioOf, smallRun } from '../small-run.ts'

const beside = {
  pictures: ['benchmarks/overview.svg', 'benchmarks/requests.svg'],
  json: 'benchmarks/figures.json',
}

/** Set UPDATE_GOLDEN to write what is there now, and look at the difference. */
const isGolden = (t: Test, name: string, text: string): void => {
  const file = new URL(`golden/${name}`, import.meta.url)
  if (process.env['UPDATE_GOLDEN'] !== undefined) writeFileSync(file, text)
  t.equal(text, readFileSync(file, 'utf8'))
}

const terminalText = (record: RunRecord): string =>
  [
    ...introduction(record),
    ...record.scenarios.flatMap(scenario => [...reportScenario(scenario, record), '']),
    ...summary(record),
    '',
  ].join('\n')

t.test('a small run is told in a terminal as it was before', async t =>
  isGolden(t, 'terminal.txt', terminalText(smallRun)),
)

t.test('a small run is told in Markdown as it was before', async t =>
  isGolden(t, 'markdown.txt', markdownReport(smallRun, beside)),
)

t.test('figures', async t => {
  const figures: readonly [number | undefined, number, string][] = [
    [1_234_567.4, 0, '1,234,567'],
    [0.934, 2, '0.93'],
    [0, 2, '0.00'],
    [0.004, 2, '<0.01'],
    [0.4, 0, '<1'],
    [-0.004, 2, '0.00'],
    [-3.25, 1, '-3.3'],
    [undefined, 2, '-'],
    [Infinity, 2, '-'],
    [Number.NaN, 0, '-'],
  ]
  for (const [value, decimals, text] of figures)
    t.test(`${value} with ${decimals} decimals is ${text}`, async t =>
      t.equal(formatFigure(value, { decimals }), text),
    )

  t.test('that were spread are told from the least to the most', async t => {
    t.equal(spreadText({ median: 2, min: 0, max: 1500 }, rate), '0..1,500')
    t.equal(spreadText(undefined, rate), '-')
  })
})

t.test('ratios', async t => {
  const ratio = (median: number, more: Partial<Comparison> = {}): Comparison => ({
    median,
    min: median,
    max: median,
    rounds: 3,
    verdict: 'worse',
    ...more,
  })
  const ratios: readonly [number, string][] = [
    [0.934, '0.93'],
    [1.236, '1.24'],
    [9.994, '9.99'],
    [9.996, '10.0'],
    [24.46, '24.5'],
    [99.96, '100'],
    [12_345.6, '12,346'],
    [0.0996, '0.10'],
    [0.0123, '0.012'],
    [0.00123, '0.0012'],
    [0.0001, '<0.001'],
    [0, '0.00'],
    [0.998, '0.998'],
    [1.004, '1.004'],
  ]
  for (const [value, text] of ratios)
    t.test(`${value} is ${text}`, async t => t.equal(ratioText(ratio(value)), text))

  t.test('within the spread are even', async t => {
    const even = ratio(0.98, { min: 0.9, max: 1.05, verdict: 'even' })
    t.equal(ratioText(even), 'even')
    t.equal(ratioWithSpread(even), 'even (0.90..1.05)')
  })

  t.test(
    'with one within their spread are even, and the spread shows the noise',
    async t => {
      const noisy = ratio(0.6, { min: 0.2, max: 1.9, verdict: 'even' })
      t.equal(ratioText(noisy), 'even')
      t.equal(ratioWithSpread(noisy), 'even (0.20..1.90)')
    },
  )

  t.test('that agree no better than by chance are told, and doubted', async t => {
    const few = ratio(0.85, { min: 0.74, max: 0.87, verdict: 'even' })
    t.equal(ratioText(few), '0.85?')
  })

  t.test('beyond the spread are told with it', async t =>
    t.equal(ratioWithSpread(ratio(0.93, { min: 0.9, max: 0.97 })), '0.93 (0.90..0.97)'),
  )

  t.test('of a single round are told, and doubted', async t => {
    const single = ratio(0.3, { rounds: 1, verdict: 'even' })
    t.equal(ratioText(single), '0.30?')
    t.equal(ratioWithSpread(single), '0.30?')
  })

  t.test('of nothing are a dash', async t => {
    t.equal(ratioText(undefined), '-')
    t.equal(ratioWithSpread(undefined), '-')
  })
})

t.test('in a terminal', async t => {
  t.test('a slowed target is seen as slower, and as much as it is', async t => {
    const slowed = scenarioOf([
      ...rounds('haproxy', rate, [1000, 1100, 900]),
      ...rounds('usher', rate, [700, 760, 640]),
    ])
    t.match(
      reportScenario(slowed, smallRun).join('\n'),
      /usher +700 +640\.\.760 +0\.70 \(0\.69\.\.0\.71\)/,
    )
  })

  t.test('no line is wider than 120 columns, with three yardsticks or five', async t => {
    const names = ['direct', 'pipe', 'haproxy', 'nginx', 'usher-nftables']
    const outcomes: readonly Outcome[] = names.flatMap((name, i) =>
      rounds(name, delay, [1.25 + i, 1.5 + i, 123.5], {
        cores: { generator: 0.5, backend: 0.5, proxy: 0.5, others: 0 },
      }),
    )
    const scenario = scenarioOf(outcomes, {
      metrics: [
        delay,
        { ...delay, name: 'late', title: 'Generator late, 99 of 100 of them' },
      ],
      notes: [`${'many words '.repeat(40)}end`],
    })
    for (const yardsticks of [names.slice(0, 3), names]) {
      const record = { ...smallRun, yardsticks, scenarios: [scenario] }
      const lines = [...reportScenario(scenario, record), ...summary(record)]
      t.same(
        lines.filter(line => line.length > 120),
        [],
      )
    }
  })

  t.test('a single figure has no range', async t =>
    t.match(reportScenario(scenarioOf(rounds('usher', rate, [5])), smallRun), [
      'requests-32: 32 kept connections, answers of 64 B',
      /target/,
      /^ {2}usher +5$/,
    ]),
  )

  t.test('a target that is in no list is shown all the same', async t =>
    t.match(
      reportScenario(scenarioOf(rounds('stranger', rate, [5])), smallRun).join('\n'),
      /stranger +5/,
    ),
  )

  t.test('a run in which nothing was measured says so', async t =>
    t.match(
      summary({ ...smallRun, scenarios: [] }).join('\n'),
      /nothing was measured[^]*Interrupted/,
    ),
  )

  t.test('only what Usher did is in the summary, or all that was given', async t => {
    t.notMatch(summary(smallRun).join('\n'), /^ +requests-32 .*50,000/m)
    const [direct, haproxy, usher] = smallRun.targets
    if (direct === undefined || haproxy === undefined || usher === undefined) return
    const other = { ...usher, name: 'other', kind: 'given' as const }
    const second = { ...usher, name: 'usher-2' }
    const scenarios = smallRun.scenarios.map(scenario => ({
      ...scenario,
      outcomes: scenario.outcomes.flatMap(outcome =>
        outcome.target === 'usher'
          ? [outcome, { ...outcome, target: 'usher-2' }, { ...outcome, target: 'other' }]
          : [outcome],
      ),
    }))
    const targets = [direct, haproxy, usher, second, other]
    const two = summary({ ...smallRun, scenarios, targets }).join('\n')
    t.match(two, /\n {2}requests-32 {2}usher .*\n {15}usher-2 .*\n {2}latency-50/)
    t.notMatch(two, 'other')
    const given = smallRun.targets.map(target => ({
      ...target,
      kind: target.kind === 'usher' ? ('given' as const) : target.kind,
    }))
    t.match(summary({ ...smallRun, targets: given }).join('\n'), /requests-32 +45,000/)
  })
})

t.test('in Markdown', async t => {
  t.test('text is shown as it is', async t => {
    t.equal(
      plain('a|b <c> *d* [e] `f`\n& g'),
      'a\\|b &lt;c> \\*d\\* \\[e\\] \\`f\\` &amp; g',
    )
    t.equal(inlineCode('a `b`'), '`` a `b` ``')
    t.same(codeBlock('```\nx\n', 'sh'), ['````sh', '```', 'x', '````'])
  })

  t.test('every picture is shown once, and at its group', async t => {
    const text = markdownReport(smallRun, beside)
    t.match(
      text,
      '## Requests on kept connections\n\n![Requests on kept connections](benchmarks/requests.svg)',
    )
    t.equal(text.split('requests.svg').length, 2)
    t.equal(text.split('overview.svg').length, 2)
  })
})

t.test('tables', async t => {
  t.test('are aligned, names to the left and figures to the right', async t =>
    t.same(
      formatTable([
        ['a', '1'],
        ['bcd', '1,000'],
      ]),
      ['a        1', 'bcd  1,000'],
    ),
  )

  t.test('text is wrapped between words', async t => {
    t.same(wrapText('one two three', 7), ['one two', 'three'])
    t.same(wrapText('extraordinary', 5), ['extraordinary'])
    t.same(wrapText('', 5), [])
  })
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

t.test(
  'the command of a report repeats it, and tells nothing of this machine',
  async t => {
    const output = ['--output', '/home/me/it', '--output=/home/me/it']
    const args = ['bench', ...output, "--target=it's=10.0.0.1:80", '--rounds', '5']
    t.equal(commandLine(args), `usher bench '--target=it'\\''s=10.0.0.1:80' --rounds 5`)
  },
)
