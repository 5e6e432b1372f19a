import { goalsOf, type GoalResult } from '../record/goals.ts'
import type { RunRecord, ScenarioRecord } from '../record/record.ts'
import { doubtsOf, errorsOf, failuresOf } from '../record/troubles.ts'
import { formatFigure } from '../record/words.ts'

/** What a reader has to mind of a scenario's figures, a sentence each. */
export const troublesOf = (
  scenario: ScenarioRecord,
  targets: readonly string[],
): readonly string[] => targets.flatMap(target => troublesWith(scenario, target))

const troublesWith = (scenario: ScenarioRecord, target: string): string[] => [
  ...doubtsOf(scenario, target).map(doubt => `${target}: IN DOUBT, ${doubt}`),
  ...[...errorsOf(scenario, target)].map(
    ([name, times]) => `${target}: ERROR ${name} (${timesText(times)})`,
  ),
  ...[...failuresOf(scenario, target)].map(
    ([why, times]) => `${target}: RUN FAILED ${why} (${timesText(times)})`,
  ),
]

const timesText = (times: number): string =>
  times === 1 ? 'once' : `${formatFigure(times, { decimals: 0 })} times`

/** How many goals were reached, and each that was not; empty without goals. */
export const goalSummary = (record: RunRecord): readonly string[] => {
  const results = goalsOf(record)
  if (results.length === 0) return []
  const of = (wanted: GoalResult['verdict']) =>
    results.filter(({ verdict }) => verdict === wanted)
  const [missed, unknown] = [of('MISSED'), of('not measured')]
  return [
    `Goals: ${of('reached').length} reached, ${missed.length} MISSED,` +
      ` ${unknown.length} not measured`,
    ...[...missed, ...unknown].map(({ scenario, text }) => `${scenario}: ${text}`),
  ]
}
