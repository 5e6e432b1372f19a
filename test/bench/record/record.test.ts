import { array, assert, double, integer, property } from 'fast-check'
import t from 'tap'
import { orderOf } from '../../../bench/measure.ts'
import { busySecondsOf } from '../../../bench/process/usage.ts'
import {
  combined,
  comparisonOf,
  figuresByRound,
  figuresOf,
  ratiosByRound,
  spreadOf,
} from '../../../bench/record/compare.ts'
import {
  coresOf,
  doubtsOf,
  errorsOf,
  failuresOf,
  goalsOf,
} from '../../../bench/record/findings.ts'
import {
  type Goal,
  type Outcome,
  parseRecord,
  recordText,
} from '../../../bench/record/record.ts'
import { delay, rate, rounds, sampleOf, scenarioOf, smallRun } from '../small-run.ts'

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
})

t.test('figures', async t => {
  const outcomes: Outcome[] = [
    { target: 'a', round: -1, sample: sampleOf({ rate: 999 }) },
    { target: 'a', round: 3, sample: sampleOf({ rate: 4 }) },
    { target: 'a', round: 0, sample: sampleOf({ rate: 1 }) },
    { target: 'b', round: 0, sample: sampleOf({ rate: 888 }) },
    { target: 'a', round: 1, failure: 'gone' },
    { target: 'a', round: 2, sample: sampleOf({ rate: Number.NaN }) },
    { target: 'a', round: 4, sample: sampleOf({ other: 777 }) },
  ]

  t.test('stand at their rounds, with gaps, and without the warm-up', async t =>
    t.same(figuresByRound(scenarioOf(outcomes), 'a', rate), [
      1,
      undefined,
      undefined,
      4,
      undefined,
    ]),
  )

  t.test('of the warm-up stand nowhere', async t =>
    t.notOk('-1' in figuresByRound(scenarioOf(outcomes), 'a', rate)),
  )

  t.test('are without gaps where rounds do not matter', async t =>
    t.same(figuresOf(scenarioOf(outcomes), 'a', rate), [1, 4]),
  )
})

t.test('a comparison', async t => {
  const compare = (values: readonly number[], base: readonly number[], metric = rate) =>
    comparisonOf(
      scenarioOf([...rounds('usher', metric, values), ...rounds('pipe', metric, base)]),
      metric,
      'usher',
      'pipe',
    )

  const table: readonly [string, number[], number[], typeof rate, string | undefined][] =
    [
      ['a slowed target', [80, 82, 79], [100, 101, 99], rate, 'worse'],
      ['a faster one', [120, 125, 118], [100, 100, 100], rate, 'better'],
      ['a target with lower delays', [1, 2, 3], [2, 3.5, 5], delay, 'better'],
      ['a target with higher delays', [3, 4, 5], [2, 3, 4], delay, 'worse'],
      ['rounds that disagree', [80, 120, 80], [100, 100, 100], rate, 'even'],
      ['a round that touches one', [100, 120, 130], [100, 100, 100], rate, 'even'],
      ['rounds that agree by chance', [101, 102, 130], [100, 100, 100], rate, 'even'],
      ['two rounds that scatter', [80, 95], [100, 100], rate, 'even'],
      ['the same figures', [5, 5], [5, 5], rate, 'even'],
      ['a single round', [10], [100], rate, 'even'],
      ['zeros on both sides', [0, 0], [0, 0], rate, 'even'],
      ['nothing against something', [0, 0], [5, 5], delay, 'better'],
      ['something against nothing', [5, 5], [0, 0], delay, undefined],
      ['no figures of its own', [], [1, 2], rate, undefined],
      ['a yardstick without figures', [1, 2], [], rate, undefined],
    ]
  for (const [what, values, base, metric, verdict] of table)
    t.test(`of ${what} is ${verdict ?? 'not made'}`, async t =>
      t.equal(compare(values, base, metric)?.verdict, verdict),
    )

  t.test('is the median of the ratios within each round', async t =>
    t.same(compare([50, 30, 90], [100, 50, 100]), {
      median: 0.6,
      min: 0.5,
      max: 0.9,
      rounds: 3,
      verdict: 'even',
    }),
  )

  t.test('leaves out a round that one of them is missing', async t => {
    const scenario = scenarioOf([
      ...rounds('usher', rate, [50, 1, 60]),
      ...rounds('pipe', rate, [100]),
      { target: 'pipe', round: 1, failure: 'gone' },
      { target: 'pipe', round: 2, sample: sampleOf({ rate: 100 }) },
    ])
    t.match(comparisonOf(scenario, rate, 'usher', 'pipe'), {
      rounds: 2,
      min: 0.5,
      max: 0.6,
    })
  })

  t.test('turns to its opposite when target and yardstick change places', async () => {
    const figures = array(double({ min: 0.001, max: 1000, noNaN: true }), {
      minLength: 2,
      maxLength: 6,
    })
    const opposite = { better: 'worse', worse: 'better', even: 'even' } as const
    assert(
      property(figures, figures, (values, base) => {
        const one = compare(values, base)
        const other = compare(base, values)
        return (
          one !== undefined &&
          other?.verdict === opposite[one.verdict] &&
          one.rounds === Math.min(values.length, base.length) &&
          one.min <= one.median &&
          one.median <= one.max
        )
      }),
    )
  })

  t.test('of a line of an overview is to each yardstick, not to itself', async t => {
    const [scenario] = smallRun.scenarios
    const line = scenario && combined(smallRun, scenario, 'haproxy')
    t.equal(line?.figure?.median, 50_000)
    t.match(line?.ratios, [{ verdict: 'worse' }, undefined])
    t.equal(scenario && combined(smallRun, scenario, 'nginx'), undefined)
  })
})

t.test('troubles', async t => {
  const [scenario = scenarioOf([])] = smallRun.scenarios

  t.test('errors are summed over all rounds, warm-up included', async t =>
    t.same([...errorsOf(scenario, 'usher')], [['ECONNRESET', 1234]]),
  )

  t.test('runs that failed are counted by their reason', async t => {
    const failed = [-1, 0, 1].map(round => ({ target: 'a', round, failure: 'gone' }))
    t.same([...failuresOf(scenarioOf(failed), 'a')], [['gone', 3]])
  })

  t.test('cores are medians, and missing where nobody told them', async t =>
    t.same(coresOf(scenario, 'direct'), { generator: 0.95, backend: 0.5, others: 0.01 }),
  )

  t.test('cores of the warm-up do not count', async t => {
    const [warmUp] = rounds('a', rate, [1], { cores: { proxy: 1 } })
    const outcomes = warmUp === undefined ? [] : [{ ...warmUp, round: -1 }]
    t.same(coresOf(scenarioOf(outcomes), 'a'), {})
  })

  const doubts = (cores: object) =>
    doubtsOf(scenarioOf(rounds('a', rate, [1, 1, 1], { cores })), 'a').join()

  t.test('a generator at its limit is a doubt only when the proxy is not', async t => {
    t.equal(
      doubts({ generator: 0.95, proxy: 0.5 }),
      'the generator was the bottleneck (0.95 of a core, the proxy 0.50)',
    )
    t.equal(doubts({ generator: 0.95, proxy: 0.85 }), '')
    t.equal(doubts({ generator: 0.85, proxy: 0.5 }), '')
    t.match(doubts({ generator: 0.95 }), /0\.95 of a core\)$/)
  })

  t.test('so is a backend at its limit, of which two together may use more', async t => {
    t.equal(
      doubts({ backend: 1.1, busiestBackend: 0.97, proxy: 0.5 }),
      'a backend was the bottleneck (0.97 of a core, the proxy 0.50)',
    )
    t.equal(doubts({ backend: 1.2, busiestBackend: 0.6, proxy: 0.5 }), '')
  })

  t.test(
    'a generator that was late itself is a doubt about what it has timed',
    async t => {
      const late = (ms: number) => {
        const figures = { p99: 4, 'late p99': ms }
        const outcome = { target: 'a', round: 0, sample: { ...sampleOf({}), figures } }
        return doubtsOf(scenarioOf([outcome]), 'a').join()
      }
      t.match(late(2.5), /2\.50 ms late/)
      t.equal(late(1.5), '')
    },
  )

  t.test('other programs that were busy are a doubt', async t => {
    t.equal(doubts({ others: 0.4 }), 'other programs used 0.40 cores')
    t.equal(doubts({ others: 0.05 }), '')
  })
})

t.test('goals', async t => {
  const resultOf = (goal: Partial<Goal>, target = 'usher') =>
    goalsOf({
      ...smallRun,
      scenarios: [
        scenarioOf(
          [...rounds('usher', rate, [90, 96, 60]), ...rounds('direct', rate, [100, 100])],
          { goals: [{ target, metric: 'rate', ...goal }] },
        ),
      ],
    })[0]

  const table: readonly [Partial<Goal>, string, string][] = [
    [{ atLeast: 90 }, 'reached', 'usher Requests >= 90 req/s: 90.0, reached'],
    [{ atLeast: 90.1 }, 'MISSED', 'usher Requests >= 90.1 req/s: 90.0, MISSED'],
    [{ atMost: 90 }, 'reached', 'usher Requests <= 90 req/s: 90.0, reached'],
    [{ atMost: 89 }, 'MISSED', 'usher Requests <= 89 req/s: 90.0, MISSED'],
    [
      { to: 'direct', atLeast: 0.92 },
      'reached',
      'usher/direct Requests >= 0.92: 0.930, reached',
    ],
    [{ metric: 'cost', atMost: 1 }, 'not measured', 'usher cost <= 1: -, not measured'],
  ]
  for (const [goal, verdict, text] of table)
    t.test(`${text} is told of ${JSON.stringify(goal)}`, async t => {
      const result = resultOf(goal)
      t.equal(result?.verdict, verdict)
      t.match(result?.text, text)
    })

  t.test('beside a target that took no part are none', async t =>
    t.equal(resultOf({ to: 'nginx', atLeast: 0.9 }), undefined),
  )

  t.test('of a target that takes no part say nothing', async t =>
    t.equal(resultOf({ atLeast: 1 }, 'nginx'), undefined),
  )
})

t.test('a results file', async t => {
  t.test('gives back the record that it was written from', async t =>
    t.same(parseRecord(recordText(smallRun), 'x.json'), smallRun),
  )

  t.test('has no figure where there was none, and can be read', async t => {
    const scenarios = [scenarioOf(rounds('usher', rate, [Infinity, 2]))]
    const back = parseRecord(recordText({ ...smallRun, scenarios }), 'x.json')
    t.match(back.scenarios[0]?.outcomes, [
      { sample: { figures: { rate: undefined } } },
      { sample: { figures: { rate: 2 } } },
    ])
  })

  t.test('may have fields of a later version', async t => {
    const later = JSON.stringify({ ...smallRun, later: 1 })
    t.same(parseRecord(later, 'x.json'), smallRun)
  })

  /** The text of the small run with one value in another's place. */
  const withValue = (path: readonly (string | number)[], value: unknown): string => {
    const record: unknown = structuredClone(smallRun)
    let at = record as Record<string | number, unknown>
    for (const key of path.slice(0, -1)) at = at[key] as typeof at
    const last = path.at(-1) ?? ''
    if (value === undefined) delete at[last]
    else at[last] = value
    return JSON.stringify(record)
  }

  const outcome = ['scenarios', 0, 'outcomes', 0]
  const bad: readonly [string, string, string][] = [
    ['no JSON', '{', 'x.json: not JSON: '],
    ['a list', '[]', 'x.json: not a results file of usher bench'],
    ['another file', '{"name": "usher"}', 'x.json: not a results file of usher bench'],
    [
      'a later format',
      withValue(['format'], 'usher-bench/2'),
      `x.json: format "usher-bench/2": this version of Usher reads 'usher-bench/1'`,
    ],
    ['no machine', withValue(['machine'], undefined), 'x.json: machine is missing'],
    ['a title of 5', withValue(['title'], 5), 'x.json: title 5 is not text'],
    [
      'null for a figure',
      withValue([...outcome, 'sample', 'figures', 'rate'], null),
      'x.json: scenarios[0].outcomes[0].sample.figures.rate null is not a number',
    ],
    [
      'a figure beyond all numbers',
      withValue([...outcome, 'sample', 'figures', 'rate'], 12_345).replace(
        '12345',
        '1e999',
      ),
      'x.json: scenarios[0].outcomes[0].sample.figures.rate Infinity is not a finite number',
    ],
    [
      'half a round',
      withValue([...outcome, 'round'], 0.5),
      'x.json: scenarios[0].outcomes[0].round 0.5 is not a whole number from -1 to 99999',
    ],
    [
      'an outcome of nothing',
      withValue([...outcome, 'sample'], undefined),
      'x.json: scenarios[0].outcomes[0].sample is missing',
    ],
    [
      'digits that no number has',
      withValue(['scenarios', 0, 'metrics', 0, 'decimals'], 101),
      'x.json: scenarios[0].metrics[0].decimals 101 is not a whole number from 0 to 9',
    ],
    [
      'a kind that nobody knows',
      withValue(['targets', 0, 'kind'], 'friend'),
      'x.json: targets[0].kind "friend" is not one of direct, floor, usher, peer, given',
    ],
    ['half a setting', withValue(['setting', 0], ['Rounds']), 'x.json: setting[0]'],
    [
      'nothing but a format',
      '{"format": "usher-bench/1"}',
      'x.json: title is missing; startedAt is missing; seconds is missing; ' +
        'complete is missing; command is missing; and 7 more',
    ],
  ]
  for (const [what, text, message] of bad)
    t.test(`with ${what} is refused by name and fault`, async t => {
      try {
        parseRecord(text, 'x.json')
        t.fail('it was read')
      } catch (error) {
        t.equal((error as Error).message.slice(0, message.length), message)
      }
    })
})

t.test('the order of rounds', async t => {
  const orders = [-1, 0, 1, 2, 3, 4, 5].map(round => orderOf(['a', 'b', 'c'], round))

  t.test('has each target once', async t => {
    for (const order of orders) t.same(order.toSorted(), ['a', 'b', 'c'])
    t.same(orderOf([], 3), [])
  })

  t.test('has nobody always after the same one', async t => {
    for (const target of ['a', 'b', 'c']) {
      const before = orders.map(order => order[order.indexOf(target) - 1] ?? 'none')
      t.ok(new Set(before).size > 2, `${target}: ${before.join()}`)
    }
  })
})

t.test(
  'the time of the machine has interrupts and what was stolen, not guests',
  async t => t.equal(busySecondsOf('cpu  100 200 300 9999 9999 400 500 600 100 200'), 21),
)
