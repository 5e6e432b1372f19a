import type { RunRecord, ScenarioRecord } from '../../record/record.ts'
import { arranged, type Drawing, margin, standaloneSvg } from './drawing.ts'
import { label } from './element.ts'
import { figureChart, largest } from './figure-chart.ts'
import { overviewDrawing } from './overview.ts'
import { drawnPercentiles, percentileChart } from './percentile-chart.ts'
import { percentilesOf } from './percentiles.ts'
import { rowsOf } from './rows.ts'
import { capitalized, type Group, groupsOf } from './verdicts.ts'

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
