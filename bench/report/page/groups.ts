import type { RunRecord, ScenarioRecord } from '../../record/record.ts'
import { doubtsOf, errorsOf, failuresOf } from '../../record/troubles.ts'
import { pictureName, scenarioDrawings } from '../svg/pictures.ts'
import { capitalized, type Group as Scenarios, groupsOf } from '../svg/verdicts.ts'
import { type Group, list, type ScenarioPart } from './blocks.ts'
import { figureTable } from './figure-table.ts'
import { ratioTable } from './ratio-table.ts'

/** Width that a chart is drawn for: a phone's, nearly, or half a page. */
const chartWidth = 400

/** Every group of scenarios: what they tell, their charts, and the tables behind them. */
export const groupParts = (record: RunRecord): readonly Group[] =>
  groupsOf(record).map((group, index) => {
    const [first, ...others] = new Set(group.scenarios.map(({ about }) => about))
    const about = others.length === 0 ? (first ?? '') : ''
    return {
      id: `group-${index + 1}`,
      title: group.title,
      picture: pictureName(group),
      about,
      scenarios: group.scenarios.map(scenario =>
        scenarioPart(record, group, { scenario, shared: about }),
      ),
    }
  })

const scenarioPart = (
  record: RunRecord,
  group: Scenarios,
  { scenario, shared }: { readonly scenario: ScenarioRecord; readonly shared: string },
): ScenarioPart => ({
  name: scenario.name,
  title: capitalized(scenario.title),
  about: scenario.about === shared ? '' : scenario.about,
  drawings: scenarioDrawings(record, group, { scenario, width: chartWidth }),
  notes: scenario.notes,
  troubles: troubles(record, scenario),
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

const timesText = (times: number): string =>
  times === 1 ? 'once' : `${times.toLocaleString('en-US')} times`
