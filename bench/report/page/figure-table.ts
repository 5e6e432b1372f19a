import { figuresOf } from '../../record/compare.ts'
import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { spreadOf } from '../../record/statistics.ts'
import { coresOf, errorsOf } from '../../record/troubles.ts'
import { coreText, formatFigure, none, spreadText } from '../../record/words.ts'
import { gapText, type Row, rowsOf } from '../svg/rows.ts'
import type { Cell, Table } from './blocks.ts'

/** All that was measured of every target: medians with their spread, cores, what went wrong. */
export const figureTable = (
  record: RunRecord,
  scenario: ScenarioRecord,
): readonly Table[] => {
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
