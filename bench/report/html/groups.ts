import type { RunRecord, ScenarioRecord } from '../../record/record.ts'
import { doubtsOf, errorsOf, failuresOf } from '../../record/troubles.ts'
import { inlineSvg } from '../svg/drawing.ts'
import { escaped } from '../svg/element.ts'
import { scenarioDrawings } from '../svg/pictures.ts'
import { capitalized, type Group, groupsOf } from '../svg/verdicts.ts'
import { figureTable } from './figure-table.ts'
import { folded, list, paragraph } from './markup.ts'
import { ratioTable } from './ratio-table.ts'

/** Width that a chart is drawn for: a phone's, nearly, or half a page. */
const chartWidth = 400

/** Every group of scenarios: what they tell, their charts, and the tables behind them. */
export const groupSections = (record: RunRecord): string =>
  groupsOf(record)
    .map((group, index) => section(record, group, `group-${index + 1}`))
    .join('')

const section = (record: RunRecord, group: Group, id: string): string => {
  const abouts = new Set(group.scenarios.map(({ about }) => about))
  const shared = abouts.size === 1 ? (group.scenarios[0]?.about ?? '') : ''
  const articles = group.scenarios.map(scenario =>
    article(record, group, {
      scenario,
      about: scenario.about === shared ? '' : scenario.about,
    }),
  )
  const tables = group.scenarios.map(scenario =>
    folded(
      `All figures: ${scenario.title}`,
      figureTable(record, scenario) + ratioTable(record, scenario) + leftOut(scenario),
    ),
  )
  return [
    `<section aria-labelledby="${id}">\n<h2 id="${id}">${escaped(group.title)}</h2>\n`,
    shared === '' ? '' : paragraph(shared),
    `<div class="charts">\n${articles.join('')}</div>\n`,
    ...tables,
    '</section>\n',
  ].join('')
}

const article = (
  record: RunRecord,
  group: Group,
  { scenario, about }: { readonly scenario: ScenarioRecord; readonly about: string },
): string => {
  const drawings = scenarioDrawings(record, group, { scenario, width: chartWidth })
  const charts =
    drawings.length === 0
      ? paragraph('This scenario has no metric.', 'bad')
      : `<div class="pair">${drawings.map(inlineSvg).join('\n')}</div>\n`
  return [
    `<article${drawings.length > 1 ? ' class="wide"' : ''}>\n`,
    `<h3>${escaped(capitalized(scenario.title))}</h3>\n`,
    about === '' ? '' : paragraph(about, 'muted'),
    charts,
    list(scenario.notes, 'notes'),
    list(troubles(record, scenario), 'notes troubles'),
    '</article>\n',
  ].join('')
}

/** In full what the chart has only room to hint at. */
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

const timesText = (times: number): string =>
  times === 1 ? 'once' : `${times.toLocaleString('en-US')} times`

const leftOut = (scenario: ScenarioRecord): string =>
  list(
    scenario.leftOut.map(({ name, why }) => `Left out: ${name}, ${why}`),
    'notes',
  )
