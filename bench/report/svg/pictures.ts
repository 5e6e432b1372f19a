import { formatFigure, none } from '../../record/findings.ts'
import type { RunRecord, ScenarioRecord, TargetRecord } from '../../record/record.ts'
import {
  capitalized,
  type Group,
  groupsOf,
  rowsOf,
  standOf,
  subjectsOf,
  tallyText,
  troubleText,
  yardsticksOf,
} from '../rows.ts'
import { titled } from './chart.ts'
import {
  drawnPercentiles,
  figureChart,
  largest,
  percentileChart,
  percentilesOf,
} from './charts.ts'
import {
  arranged,
  type Drawing,
  element,
  fitted,
  label,
  margin,
  standaloneSvg,
  widthOf,
} from './drawing.ts'

const lineHeight = 24
const widestColumn = 100
const shareOfNames = 0.5

/**
 * Every scenario in a line: what the first Usher had, and how that stands beside each
 * yardstick. Undefined when there is nothing to compare.
 */
const overviewDrawing = (record: RunRecord, width: number): Drawing | undefined => {
  const [subject] = subjectsOf(record)
  const yardsticks = yardsticksOf(record, subject)
  if (subject === undefined || yardsticks.length === 0) return undefined
  const column = Math.min(widestColumn, (width * (1 - shareOfNames)) / yardsticks.length)
  const grid = { column, left: width - column * yardsticks.length, yardsticks, subject }
  let body = heads(record, grid)
  let y = headHeight
  for (const group of groupsOf(record)) {
    body += label(0, y + 17, group.title, { class: 'head' })
    y += lineHeight
    for (const scenario of group.scenarios) {
      body += element(
        'g',
        { transform: `translate(0 ${y})` },
        line(record, scenario, grid),
      )
      y += lineHeight
    }
    y += 6
  }
  return {
    width,
    height: y,
    body,
    title: `${subject.name} beside ${yardsticks.map(({ name }) => name).join(', ')}`,
    description: record.scenarios
      .map(scenario => describe(record, scenario, grid))
      .join('; '),
  }
}

interface Grid {
  readonly subject: TargetRecord
  readonly column: number
  readonly left: number
  readonly yardsticks: readonly TargetRecord[]
}

const headHeight = 62

const heads = (record: RunRecord, grid: Grid): string => {
  const { column, left, yardsticks, subject } = grid
  const size = { class: 'small muted' }
  const body = [
    label(0, 14, `${subject.name} beside ...`, { class: 'head' }),
    label(0, 31, 'Figure of it ÷ figure of the other, median over rounds.', size),
    label(0, 46, '"even": rounds disagree. "?": they agree, perhaps by chance.', size),
  ]
  for (const [index, yardstick] of yardsticks.entries()) {
    const x = left + (index + 0.5) * column
    body.push(label(x, 14, fitted(yardstick.name, column, 13), { class: 'head mid' }))
    const counts = tallyText(record, subject, yardstick).split(' · ')
    for (const [line_, count] of counts.entries())
      body.push(label(x, 28 + line_ * 12, count, { class: 'small muted mid' }))
  }
  return body.join('')
}

const line = (record: RunRecord, scenario: ScenarioRecord, grid: Grid): string => {
  const { column, left, yardsticks, subject } = grid
  const [metric] = scenario.metrics
  if (metric === undefined) return label(0, 16, scenario.title)
  const figure = figureText(record, scenario, subject)
  const figureRoom = widthOf(figure, 11)
  const parts = [
    element('line', {
      class: 'grid',
      x1: 0,
      x2: left + column * yardsticks.length,
      y1: 0,
      y2: 0,
    }),
    label(10, 16, fitted(capitalized(scenario.title), left - figureRoom - 26, 12)),
    label(left - 10, 16, figure, { class: 'small muted end' }),
  ]
  for (const [index, yardstick] of yardsticks.entries()) {
    const { text, word, shade, detail } = standOf(scenario, metric, subject, yardstick)
    const x = left + index * column
    const shown = fitted(
      [text === none && word !== '' ? '' : text, word]
        .filter(part => part !== '')
        .join(' '),
      column - 4,
      11.5,
    )
    parts.push(
      element(
        'g',
        {},
        titled(detail),
        element('rect', {
          class: `cell ${shade}`,
          x: x + 1,
          y: 1,
          width: column - 2,
          height: lineHeight - 1,
        }),
        label(x + column / 2, 16, shown, {
          class: shade === '' || shade === 'even' ? 'mid muted' : 'mid',
        }),
      ),
    )
  }
  return parts.join('')
}

/** `42,310 req/s`, with a `!` when something went wrong, or why there is no figure. */
export const figureText = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
  { name }: TargetRecord,
): string => {
  const [metric] = scenario.metrics
  const row =
    metric && rowsOf(record, scenario, metric).find(each => each.target.name === name)
  if (metric === undefined || row === undefined) return ''
  if (row.spread !== undefined)
    return `${formatFigure(row.spread.median, metric)} ${metric.unit}${troubleText(row) === '' ? '' : ' !'}`
  if (row.failed > 0) return 'failed'
  return row.leftOut === '' ? 'not measured' : 'left out'
}

const describe = (
  record: RunRecord,
  scenario: ScenarioRecord,
  { subject, yardsticks }: Grid,
): string => {
  const [metric] = scenario.metrics
  if (metric === undefined) return scenario.title
  const stands = yardsticks.map(yardstick => {
    const { text, word } = standOf(scenario, metric, subject, yardstick)
    return `${yardstick.name} ${text} ${word}`.trimEnd()
  })
  return `${scenario.title}: ${figureText(record, scenario, subject)}, ${stands.join(', ')}`
}

/** All pictures of a page are as wide. */
const pageWidth = 860
const inside = pageWidth - 2 * margin
const gap = 28

/** The file that tells how all stand. */
export const overviewFile = 'overview.svg'

/** Files of SVG by name: `overview.svg` when there is something to compare, and each group. */
export const pictures = (record: RunRecord): Map<string, string> => {
  const files = new Map<string, string>()
  const overview = overviewSvg(record)
  if (overview !== undefined) files.set(overviewFile, overview)
  for (const group of groupsOf(record)) {
    files.set(pictureName(group), groupSvg(record, group))
  }
  return files
}

/** The file of a group's charts. */
export const pictureName = ({ name }: Pick<Group, 'name'>): string =>
  `${name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.svg`

/** Usher beside each yardstick, every scenario in a line. */
export const overviewSvg = (record: RunRecord): string | undefined => {
  const drawing = overviewDrawing(record, inside)
  return drawing && standaloneSvg(drawing)
}

/** The charts of one scenario. */
export const scenarioSvg = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
): string =>
  groupSvg(record, {
    name: '',
    title: capitalized(scenario.title),
    scenarios: [scenario],
  })

/** Charts of a group's scenarios, two in a line, under its title. */
const groupSvg = (record: Pick<RunRecord, 'targets'>, group: Group): string => {
  const count = group.scenarios.length
  const alone = count === 1 && chartsOf(record, group, inside).length === 1
  const width = alone ? inside : (inside - gap) / 2
  const charts = chartsOf(record, group, width)
  const { body, height } = arranged(charts, alone ? 1 : 2, gap)
  const heading = label(0, 16, group.title, { class: 'head', style: 'font-size: 16px' })
  return standaloneSvg({
    width: inside,
    height: height + headingHeight,
    body: `${heading}<g transform="translate(0 ${headingHeight})">${body}</g>`,
    title: group.title,
    description: charts
      .map(({ title, description }) => `${title}: ${description}`)
      .join('. '),
  })
}

const headingHeight = 34

const chartsOf = (
  record: Pick<RunRecord, 'targets'>,
  group: Group,
  width: number,
): readonly Drawing[] =>
  group.scenarios.flatMap(scenario =>
    scenarioDrawings(record, group, {
      scenario,
      width,
      heading: capitalized(scenario.title),
    }),
  )

/** A scenario's chart of its first metric, and one of each set of percentiles. */
export const scenarioDrawings = (
  record: Pick<RunRecord, 'targets'>,
  group: Group,
  {
    scenario,
    width,
    heading,
  }: {
    readonly scenario: ScenarioRecord
    readonly width: number
    readonly heading?: string
  },
): readonly Drawing[] => {
  const [metric] = scenario.metrics
  if (metric === undefined) return []
  const options = { width, ...(heading !== undefined && { heading }) }
  const reach = reachOf(record, group, scenario)
  const drawings = [figureChart(record, scenario, metric, { ...options, reach })]
  for (const percentiles of percentilesOf(scenario)) {
    const drawing = percentileChart(record, scenario, percentiles, {
      ...options,
      within: group.scenarios.flatMap(each =>
        percentilesOf(each)
          .filter(({ of }) => of === percentiles.of)
          .flatMap(same => drawnPercentiles(record, each, same)),
      ),
    })
    if (drawing !== undefined) drawings.push(drawing)
  }
  return drawings
}

/** As far as a neighbour's axis reaches, unless this one's figures would be crowded by it. */
const crowded = 3

const reachOf = (
  record: Pick<RunRecord, 'targets'>,
  { scenarios }: Group,
  scenario: ScenarioRecord,
): number => {
  const own = reachAlone(record, scenario)
  const unit = scenario.metrics[0]?.unit
  const reaches = scenarios
    .filter(({ metrics }) => metrics[0]?.unit === unit)
    .map(each => reachAlone(record, each))
    .filter(reach => reach <= own * crowded)
  return Math.max(0, ...reaches)
}

const reachAlone = (
  record: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
): number => {
  const [metric] = scenario.metrics
  return metric === undefined ? 0 : largest(rowsOf(record, scenario, metric))
}
