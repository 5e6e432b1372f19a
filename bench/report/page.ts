import { comparisonOf, figuresOf, spreadOf } from '../record/compare.ts'
import {
  coresOf,
  coreText,
  doubtsOf,
  errorsOf,
  failuresOf,
  formatFigure,
  goalsOf,
  none,
  ratioWithSpread,
  spreadText,
  timesText,
} from '../record/findings.ts'
import type { Metric, RunRecord, ScenarioRecord, TargetRecord } from '../record/record.ts'
import {
  capitalized,
  gapText,
  type Group as Scenarios,
  groupsOf,
  type Row,
  rowsOf,
  type Stand,
  standOf,
  subjectsOf,
  tallyText,
  yardsticksOf,
} from './rows.ts'
import { figureText, pictureName, scenarioDrawings } from './svg/pictures.ts'

/* A report as data: its contents in order, for a writer of HTML or Markdown. */

export interface Section {
  readonly id: string
  readonly title: string
  readonly blocks: readonly Block[]
}

export type Block =
  | { readonly kind: 'paragraph'; readonly text: string; readonly look?: 'muted' | 'bad' }
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'heading'; readonly text: string }
  /** A name, and a text about it, which may be ''. */
  | { readonly kind: 'named'; readonly name: string; readonly text: string }
  | {
      readonly kind: 'list'
      readonly items: readonly string[]
      readonly look?: 'notes' | 'notes troubles'
    }
  | { readonly kind: 'facts'; readonly pairs: readonly (readonly [string, string])[] }
  /** Text as it is, such as a command or a file. */
  | { readonly kind: 'code'; readonly text: string }
  /** Shown only on demand. */
  | {
      readonly kind: 'folded'
      readonly summary: string
      readonly content: readonly Block[]
    }
  | Table

export interface Table {
  readonly kind: 'table'
  /** For those who don't see what stands above it. */
  readonly caption: string
  readonly look: '' | 'overview' | 'figures'
  readonly head: readonly Cell[]
  /** Lines by sections, each under a heading, '' for none; the first cell names the line. */
  readonly sections: readonly {
    readonly heading: string
    readonly lines: readonly (readonly Cell[])[]
  }[]
}

export type Cell =
  | string
  | {
      readonly text: string
      /** Lines in small print below it. */
      readonly small?: readonly string[]
      /** Class of its look. */
      readonly look?: string
      /** On pointing at it. */
      readonly detail?: string
    }

const paragraph = (text: string, look?: 'muted' | 'bad'): Block => ({
  kind: 'paragraph',
  text,
  ...(look !== undefined && { look }),
})

/** None for an empty list. */
const list = (
  items: readonly string[],
  look?: 'notes' | 'notes troubles',
): readonly Block[] =>
  items.length === 0 ? [] : [{ kind: 'list', items, ...(look !== undefined && { look }) }]

const folded = (summary: string, content: readonly Block[]): Block => ({
  kind: 'folded',
  summary,
  content,
})

/** Whether the run came to its end, where and how it was measured, and its limits. */
const introduction = (record: RunRecord): readonly Block[] => [
  ...(record.complete ? [] : [interrupted]),
  {
    kind: 'facts',
    pairs: [
      ['Machine', machineText(record)],
      ['Versions', versionsText(record)],
      ...record.setting,
    ],
  },
  paragraph(limitText(record)),
  folded('What these figures can’t show', list(limits(record))),
  ...leftOutOfAll(record),
]

const interrupted: Block = {
  kind: 'warning',
  text: 'This run was interrupted. What stands here was measured; the rest was not, and some figures are of fewer rounds than others.',
}

/** `2026-11-21 09:30 UTC, took 1 h 2 min`. */
const runText = ({ startedAt, seconds }: RunRecord): string =>
  `${whenText(startedAt)}, ${durationText(seconds)}`

/** `2026-11-21 09:30 UTC`, or whatever the record says when that is no time. */
const whenText = (startedAt: string): string => {
  const when = new Date(startedAt)
  if (Number.isNaN(when.getTime())) return startedAt
  return `${when.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** `took 1 h 2 min`. */
const durationText = (seconds: number): string => {
  if (!(seconds >= 60)) return `took ${Math.max(0, Math.round(seconds || 0))} s`
  const minutes = Math.round(seconds / 60)
  const hours = Math.floor(minutes / 60)
  return hours > 0 ? `took ${hours} h ${minutes % 60} min` : `took ${minutes} min`
}

/** `2 cores, Example CPU, 7.7 GiB, Linux 6.1`. */
const machineText = ({ machine }: RunRecord): string => {
  const { cpus, model, memoryBytes, kernel } = machine
  const cores = `${cpus} core${cpus === 1 ? '' : 's'}`
  return `${cores}, ${model}, ${(memoryBytes / 2 ** 30).toFixed(1)} GiB of memory, ${kernel}`
}

/** `haproxy 2.6.12, nginx 1.22.1`. */
const versionsText = ({ versions }: RunRecord): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

/** Whether traffic was measured, from clients to backends, or something within a program. */
const hasTraffic = ({ yardsticks }: RunRecord): boolean => yardsticks.length > 0

const limitText = (record: RunRecord): string =>
  `One machine${hasTraffic(record) ? ', whose cores client, proxy and backends share; no real wire' : ''}. Good for comparing these with each other, and for nothing else.`

const limitsOfTraffic = ({ machine }: RunRecord): readonly string[] => [
  `Everything ran on one machine: client, proxy and backends shared its ${machine.cpus} cores. A proxy that needs less CPU leaves more to the others, so the differences are not those of proxies on machines of their own.`,
  'There was no wire: links were virtual or there were none. Network cards, their offloads and real latencies are not in these figures.',
]

const limits = (record: RunRecord): readonly string[] => [
  ...(hasTraffic(record) ? limitsOfTraffic(record) : []),
  'The figures are good for comparison with each other, within this run. They don’t tell what can be done elsewhere.',
  `Each is the median of ${roundsText(record)}. Targets were measured by turns, ratios were taken within each round, and one counts as better or worse only when all rounds agree, by more than they scatter (Student’s t, 95 %). “even”: 1 lies within the rounds’ ratios, so that they disagree on who was ahead. “?”: they agree, but no better than chance. With a hundred ratios, expect a few that are chance.`,
]

/** How many rounds there were: those of the scenario that had the most. */
const roundsText = ({ scenarios }: RunRecord): string => {
  let most = 0
  for (const { outcomes } of scenarios)
    for (const { round } of outcomes) most = Math.max(most, round + 1)
  return most === 1 ? 'a single round' : `at most ${most} rounds`
}

const leftOutOfAll = ({ leftOut }: RunRecord): readonly Block[] =>
  leftOut.length === 0
    ? []
    : [
        paragraph('Not measured here:', 'muted'),
        ...list(
          leftOut.map(({ name, why }) => `${name}: ${why}`),
          'notes',
        ),
      ]

/** All that was measured of every target: medians with their spread, cores, what went wrong. */
const figureTable = (record: RunRecord, scenario: ScenarioRecord): readonly Table[] => {
  const [first] = scenario.metrics
  if (first === undefined) return []
  const rows = rowsOf(record, scenario, first)
  const troubled = rows.some(row => wrongText(scenario, row) !== '')
  return [
    {
      kind: 'table',
      caption: `${scenario.title}: medians, from least to most, and cores kept busy`,
      look: 'figures',
      head: [
        'Target',
        ...scenario.metrics.map(metricHead),
        ...(troubled ? [{ text: 'What went wrong', look: 'words' }] : []),
        'Rounds',
        ...['proxy', 'generator', 'backends', 'others'].map((who): Cell => ({
          text: who,
          small: ['cores busy'],
        })),
      ],
      sections: [
        { heading: '', lines: rows.map(row => lineOf(scenario, row, troubled)) },
      ],
    },
  ]
}

const metricHead = ({ title, unit, better }: Metric): Cell => ({
  text: title,
  small: [`${unit}, ${better === 'higher' ? 'more' : 'less'} is better`],
})

const lineOf = (
  scenario: ScenarioRecord,
  row: Row,
  troubled: boolean,
): readonly Cell[] => {
  const { name } = row.target
  const { proxy, generator, backend, others } = coresOf(scenario, name)
  const wrong = {
    text: wrongText(scenario, row),
    look: row.failed > 0 ? 'words bad' : 'words',
  }
  return [
    row.look === 'usher' ? { text: name, look: 'own' } : name,
    ...scenario.metrics.map(metric => figureCell(scenario, row, metric)),
    ...(troubled ? [wrong] : []),
    String(row.figures.length),
    ...[proxy, generator, backend, others].map(coreText),
  ]
}

const figureCell = (
  scenario: ScenarioRecord,
  { target, failed, spread: ofFirst }: Row,
  metric: Metric,
): Cell => {
  const spread = spreadOf(figuresOf(scenario, target.name, metric))
  if (spread === undefined)
    return failed > 0 && ofFirst === undefined ? { text: 'failed', look: 'bad' } : none
  return {
    text: formatFigure(spread.median, metric),
    small: [spreadText(spread, metric)],
  }
}

const wrongText = (scenario: ScenarioRecord, row: Row): string => {
  const parts = [...errorsOf(scenario, row.target.name)].map(
    ([error, times]) => `${times.toLocaleString('en-US')} × ${error}`,
  )
  if (row.failed > 0)
    parts.unshift(`${row.failed} of ${row.runs} runs failed: ${row.failure}`)
  else if (row.spread === undefined) parts.unshift(gapText(row))
  return parts.join(', ')
}

/** Ratios of every metric to every yardstick, with their spread over the rounds. */
const ratioTable = (record: RunRecord, scenario: ScenarioRecord): readonly Table[] => {
  const yardsticks = yardsticksOf(record)
  const sections = scenario.metrics.map(metric => ({
    heading: `${metric.title}: ratio to`,
    lines: record.targets
      .filter(({ kind }) => kind !== 'direct')
      .filter(({ name }) => figuresOf(scenario, name, metric).length > 0)
      .map(target => {
        const ratio = ratioCell(scenario, metric, target)
        const cells: Cell[] = yardsticks.map(ratio)
        return [target.name as Cell].concat(cells)
      }),
  }))
  const known = sections.filter(({ lines }) => lines.length > 0)
  if (known.length === 0 || yardsticks.length === 0) return []
  const names = yardsticks.map(({ name }) => name)
  return [
    {
      kind: 'table',
      caption: `${scenario.title}: ratios to ${names.join(', ')}, median of the rounds, from least to most`,
      look: 'figures',
      head: ['Target', ...names],
      sections: known,
    },
  ]
}

const ratioCell =
  (scenario: ScenarioRecord, metric: Metric, target: TargetRecord) =>
  (yardstick: TargetRecord): Cell => {
    if (target.name === yardstick.name) return ''
    const { shade, word, detail } = standOf(scenario, metric, target, yardstick)
    const found = comparisonOf(scenario, metric, target.name, yardstick.name)
    return {
      text: found ? `${ratioWithSpread(found)} ${word}`.trimEnd() : word || none,
      look: shade || 'none',
      detail,
    }
  }

/** Width that a chart is drawn for: a phone's, nearly, or half a page. */
const chartWidth = 400

export type Group = ReturnType<typeof groupParts>[number]

/** Every group of scenarios: what they tell, their charts, and the tables behind them. */
const groupParts = (record: RunRecord) =>
  groupsOf(record).map((group, index) => {
    const [first, ...others] = new Set(group.scenarios.map(({ about }) => about))
    const about = others.length === 0 ? (first ?? '') : ''
    return {
      id: `group-${index + 1}`,
      title: group.title,
      /** The file of its charts, see `pictures`. */
      picture: pictureName(group),
      /** What all its scenarios are about, '' when each is about something else. */
      about,
      scenarios: group.scenarios.map(scenario =>
        scenarioPart(record, group, scenario, about),
      ),
    }
  })

export type ScenarioPart = ReturnType<typeof scenarioPart>

/** @param shared - what the group says already */
const scenarioPart = (
  record: RunRecord,
  group: Scenarios,
  scenario: ScenarioRecord,
  shared: string,
) => ({
  /** By which `--only` knows it. */
  name: scenario.name,
  title: capitalized(scenario.title),
  about: scenario.about === shared ? '' : scenario.about,
  drawings: scenarioDrawings(record, group, { scenario, width: chartWidth }),
  notes: scenario.notes,
  /** In full what the charts have only room to hint at. */
  troubles: troubles(record, scenario),
  /** All figures, by which the charts were drawn. */
  tables: {
    title: `All figures: ${scenario.title}`,
    blocks: [
      ...figureTable(record, scenario),
      ...ratioTable(record, scenario),
      ...list(
        scenario.leftOut.map(({ name, why }) => `Left out: ${name}, ${why}`),
        'notes',
      ),
    ],
  },
})

const troubles = (record: RunRecord, scenario: ScenarioRecord): readonly string[] =>
  record.targets.flatMap(({ name }) => [
    ...[...failuresOf(scenario, name)].map(
      ([why, times]) => `${name} failed ${timesText(times)}: ${why}`,
    ),
    ...errorsText(scenario, name),
    ...doubtsOf(scenario, name).map(doubt => `${name}: ${doubt}`),
  ])

const errorsText = (scenario: ScenarioRecord, name: string): readonly string[] => {
  const errors = [...errorsOf(scenario, name)].map(
    ([error, times]) => `${error} ${timesText(times)}`,
  )
  return errors.length === 0 ? [] : [`${name} had errors: ${errors.join(', ')}`]
}

/** Ratios to all yardsticks in one table; without a subject or yardstick, the figures alone. */
const overview = (record: RunRecord): readonly Block[] => {
  const [first, ...others] = subjectsOf(record)
  if (record.scenarios.length === 0)
    return [paragraph('No scenario was measured.', 'bad')]
  if (first === undefined) return [figuresTable(record)]
  return [
    paragraph(
      `Ratios of ${first.name}${first.title === '' ? '' : ` (${first.title})`} to each of the others: its figure divided by theirs, median over the rounds. Whether more or less is better stands below each scenario; “better” and “worse” say who was ahead. Beside direct, the path without any proxy, the ratio is what the detour costs.`,
    ),
    overviewTable(record, first),
    ...others.map(subject =>
      folded(otherSummary(record, subject), [overviewTable(record, subject)]),
    ),
    ...goals(record),
  ]
}

const otherSummary = (record: RunRecord, subject: TargetRecord): string => {
  const title = subject.title === '' ? '' : ` (${subject.title})`
  const names = yardsticksOf(record, subject)
  const tallies = names
    .map(yardstick => [yardstick.name, tallyText(record, subject, yardstick)])
    .filter(([, tally]) => tally !== '')
    .map(([name, tally]) => `${name}: ${tally}`)
  return `The same for ${subject.name}${title}${tallies.length === 0 ? '' : `. Beside ${tallies.join('; ')}`}`
}

const overviewTable = (record: RunRecord, subject: TargetRecord): Table => {
  const yardsticks = yardsticksOf(record, subject)
  return {
    kind: 'table',
    caption: `${subject.name} beside ${yardsticks.map(({ name }) => name).join(', ')}`,
    look: 'overview',
    head: [
      subject.name,
      ...yardsticks.map(each => headCell(each.name, tallyText(record, subject, each))),
    ],
    sections: groupsOf(record).map(({ title, scenarios }) => ({
      heading: title,
      lines: scenarios.map(scenario => [
        nameCell(scenario, figureText(record, scenario, subject)),
        ...yardsticks.map(yardstick => overviewCell(scenario, subject, yardstick)),
      ]),
    })),
  }
}

const headCell = (name: string, tally: string): Cell => ({
  text: name,
  small: tally === '' ? [] : tally.split(' · '),
})

const nameCell = (scenario: ScenarioRecord, figure: string): Cell => {
  const [metric] = scenario.metrics
  const better = metric?.better === 'higher' ? 'more' : 'less'
  const what =
    metric === undefined ? 'no metric' : `${metric.title}: ${figure}, ${better} is better`
  return { text: capitalized(scenario.title), small: [what] }
}

const overviewCell = (
  scenario: ScenarioRecord,
  subject: TargetRecord,
  yardstick: TargetRecord,
): Cell => {
  const [metric] = scenario.metrics
  return metric === undefined
    ? '-'
    : standCell(standOf(scenario, metric, subject, yardstick))
}

/** A ratio with its word, coloured. */
const standCell = ({ text, word, shade, detail }: Stand): Cell => ({
  text,
  small: word === '' ? [] : [word],
  look: shade === '' ? 'none' : shade,
  detail,
})

/** Medians of the first metrics, a column for each target. */
const figuresTable = (record: RunRecord): Table => ({
  kind: 'table',
  caption: 'Medians by scenario and target',
  look: 'figures',
  head: ['Scenario', ...record.targets.map(({ name }) => name)],
  sections: groupsOf(record).map(({ title, scenarios }) => ({
    heading: title,
    lines: scenarios.map(scenario => [
      {
        text: capitalized(scenario.title),
        small: [scenario.metrics[0]?.title ?? 'no metric'],
      },
      ...record.targets.map(target => figureText(record, scenario, target)),
    ]),
  })),
})

const goals = (record: RunRecord): readonly Block[] => {
  const results = goalsOf(record)
  if (results.length === 0) return []
  const titles = new Map(record.scenarios.map(({ name, title }) => [name, title]))
  const missed = results.filter(({ verdict }) => verdict === 'MISSED').length
  const reached = results.filter(({ verdict }) => verdict === 'reached').length
  const unknown = results.length - missed - reached
  const summary = [
    `${reached} reached`,
    `${missed} missed`,
    ...(unknown > 0 ? [`${unknown} not measured`] : []),
  ].join(', ')
  const lines = results.map(({ scenario, text, verdict }): readonly Cell[] => [
    capitalized(titles.get(scenario) ?? scenario),
    { text, look: verdict === 'MISSED' ? 'words bad' : 'words' },
  ])
  const content: Table = {
    kind: 'table',
    caption: 'Goals',
    look: '',
    head: ['Scenario', { text: 'Goal, and what was measured', look: 'words' }],
    sections: [{ heading: '', lines }],
  }
  return [folded(`Usher's goals: ${summary}`, [content])]
}

/** All that a report of a run tells, for a writer of HTML or Markdown. */
export const pageOf = (record: RunRecord) => ({
  title: record.title,
  when: runText(record),
  /** The command line that repeats it. */
  command: record.command,
  introduction: introduction(record),
  overview: { id: 'overview', title: 'Overview', blocks: overview(record) },
  /** How to read the charts. */
  key: [
    'Bar: from zero to the median of the rounds',
    'Dots: each round',
    'Line: least to most',
    'Dashed: the direct path',
    '!: something went wrong',
  ],
  groups: groupParts(record),
  appendix: appendix(record),
})

/** What is needed to measure the same again, or to doubt it. */
const appendix = (record: RunRecord): Section => {
  const { machine, versions } = record
  return {
    id: 'appendix',
    title: 'How to repeat it',
    blocks: [
      { kind: 'code', text: record.command },
      {
        kind: 'facts',
        pairs: [
          ['Started', whenText(record.startedAt)],
          ['Cores', String(machine.cpus)],
          ['Processor', machine.model],
          ['Memory', `${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB`],
          ['Kernel', machine.kernel],
          ...(versions['node'] === undefined ? [['Node', machine.node] as const] : []),
          ...Object.entries(versions),
          ...record.setting,
        ],
      },
      { kind: 'heading', text: 'Targets, and how each was started' },
      ...record.targets.flatMap(targetBlocks),
    ],
  }
}

const targetBlocks = ({
  name,
  title,
  command,
  config,
}: TargetRecord): readonly Block[] => [
  { kind: 'named', name, text: title },
  ...(command === '' ? [] : [{ kind: 'code', text: command } as const]),
  ...(config === ''
    ? []
    : [folded(`Configuration of ${name}`, [{ kind: 'code', text: config }])]),
]
