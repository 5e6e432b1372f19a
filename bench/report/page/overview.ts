import { goalsOf } from '../../record/goals.ts'
import type { RunRecord, ScenarioRecord, TargetRecord } from '../../record/record.ts'
import { figureText } from '../svg/overview.ts'
import {
  capitalized,
  groupsOf,
  type Stand,
  standOf,
  subjectsOf,
  tallyText,
  yardsticksOf,
} from '../svg/verdicts.ts'
import { type Block, type Cell, folded, paragraph, type Table } from './blocks.ts'

/** Ratios to all yardsticks in one table; without a subject or yardstick, the figures alone. */
export const overview = (record: RunRecord): readonly Block[] => {
  const [first, ...others] = subjectsOf(record)
  if (record.scenarios.length === 0)
    return [paragraph('No scenario was measured.', 'bad')]
  if (first === undefined) return [figuresTable(record)]
  return [
    paragraph(
      `Ratios of ${first.name}${first.title === '' ? '' : ` (${first.title})`} to each of the others: its figure divided by theirs, median over the rounds. Whether more or less is better stands below each scenario; “better” and “worse” say who was ahead. Beside direct, the path without any proxy, the ratio is what the detour costs.`,
    ),
    ratioTable(record, first),
    ...others.map(subject =>
      folded(otherSummary(record, subject), [ratioTable(record, subject)]),
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

const ratioTable = (record: RunRecord, subject: TargetRecord): Table => {
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
        ...yardsticks.map(yardstick => ratioCell(scenario, subject, yardstick)),
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

const ratioCell = (
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
