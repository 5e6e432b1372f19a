import { figuresOf } from '../../record/compare.ts'
import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { spreadOf } from '../../record/statistics.ts'
import { coresOf, errorsOf } from '../../record/troubles.ts'
import { coreText, formatFigure, none, spreadText } from '../../record/words.ts'
import { escaped } from '../svg/element.ts'
import { gapText, type Row, rowsOf } from '../svg/rows.ts'
import { type Cell, table } from './markup.ts'

/** All that was measured of every target: medians with their spread, cores, what went wrong. */
export const figureTable = (record: RunRecord, scenario: ScenarioRecord): string => {
  const [first] = scenario.metrics
  if (first === undefined) return ''
  const rows = rowsOf(record, scenario, first)
  const troubled = rows.some(row => wrongText(scenario, row) !== '')
  return table({
    caption: `${scenario.title}: medians, from least to most, and cores kept busy`,
    class: 'figures',
    head: [
      'Target',
      ...scenario.metrics.map(metricHead),
      ...(troubled ? [{ markup: 'What went wrong', class: 'words' }] : []),
      'Rounds',
      ...['proxy', 'generator', 'backends', 'others'].map((who): Cell => ({
        markup: `${who}<small>cores busy</small>`,
      })),
    ],
    sections: [{ heading: '', lines: rows.map(row => lineOf(scenario, row, troubled)) }],
  })
}

const metricHead = ({ title, unit, better }: Metric): Cell => ({
  markup: `${escaped(title)}<small>${escaped(unit)}, ${better === 'higher' ? 'more' : 'less'} is better</small>`,
})

const lineOf = (
  scenario: ScenarioRecord,
  row: Row,
  troubled: boolean,
): readonly Cell[] => {
  const { name } = row.target
  const { proxy, generator, backend, others } = coresOf(scenario, name)
  const wrong = {
    markup: escaped(wrongText(scenario, row)),
    class: row.failed > 0 ? 'words bad' : 'words',
  }
  return [
    row.look === 'usher' ? { markup: `<span class="own">${escaped(name)}</span>` } : name,
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
    return failed > 0 && ofFirst === undefined ? { markup: 'failed', class: 'bad' } : none
  return {
    markup: `${formatFigure(spread.median, metric)}<small>${spreadText(spread, metric)}</small>`,
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
