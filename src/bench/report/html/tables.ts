import { comparisonOf, figuresOf } from '../../record/compare.ts'
import type { Metric, RunRecord, ScenarioRecord } from '../../record/record.ts'
import { spreadOf } from '../../record/statistics.ts'
import { coresOf, errorsOf } from '../../record/troubles.ts'
import { formatFigure, ratioWithSpread, spreadText } from '../../record/words.ts'
import { escaped } from '../svg/element.ts'
import { gapText, type Row, rowsOf } from '../svg/rows.ts'
import { standOf, yardsticksOf } from '../svg/verdicts.ts'
import { type Cell, table } from './markup.ts'

/** All that was measured of every target: medians with their spread, cores, what went wrong. */
export const figureTable = (record: RunRecord, scenario: ScenarioRecord): string => {
  const [first] = scenario.metrics
  if (first === undefined) return ''
  const rows = rowsOf(record, scenario, first)
  return table({
    caption: `${scenario.title}: medians, from least to most, and cores kept busy`,
    class: 'figures',
    head: [
      'Target',
      ...scenario.metrics.map(metricHead),
      'Rounds',
      ...['proxy', 'generator', 'backends', 'others'].map((who): Cell => ({
        markup: `${who}<small>cores busy</small>`,
      })),
      { markup: 'Went wrong', class: 'words' },
    ],
    sections: [{ heading: '', lines: rows.map(row => lineOf(scenario, row)) }],
  })
}

const metricHead = ({ title, unit, better }: Metric): Cell => ({
  markup: `${escaped(title)}<small>${escaped(unit)}, ${better === 'higher' ? 'more' : 'less'} is better</small>`,
})

const lineOf = (scenario: ScenarioRecord, row: Row): readonly Cell[] => {
  const { name } = row.target
  const { proxy, generator, backend, others } = coresOf(scenario, name)
  return [
    row.look === 'usher' ? { markup: `<span class="own">${escaped(name)}</span>` } : name,
    ...scenario.metrics.map(metric => figureCell(scenario, name, metric)),
    String(row.figures.length),
    ...[proxy, generator, backend, others].map(cores =>
      formatFigure(cores, { decimals: 2 }),
    ),
    {
      markup: escaped(wrongText(scenario, row)),
      class: row.failed > 0 ? 'words bad' : 'words',
    },
  ]
}

const figureCell = (scenario: ScenarioRecord, name: string, metric: Metric): Cell => {
  const spread = spreadOf(figuresOf(scenario, name, metric))
  const range = spread === undefined ? '' : `<small>${spreadText(spread, metric)}</small>`
  return { markup: `${formatFigure(spread?.median, metric)}${range}` }
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
export const ratioTable = (record: RunRecord, scenario: ScenarioRecord): string => {
  const yardsticks = yardsticksOf(record)
  if (yardsticks.length === 0) return ''
  const names = yardsticks.map(({ name }) => name)
  const sections = scenario.metrics.map(metric => ({
    heading: `${metric.title}, ratio to`,
    lines: record.targets
      .filter(({ kind }) => kind !== 'direct')
      .filter(({ name }) => figuresOf(scenario, name, metric).length > 0)
      .map((target): readonly Cell[] => [
        target.name,
        ...yardsticks.map((yardstick): Cell => {
          const { shade, text, detail } = standOf(scenario, metric, target, yardstick)
          const found = comparisonOf(scenario, metric, target.name, yardstick.name)
          const shown = target.name === yardstick.name ? '' : ratioWithSpread(found)
          return {
            markup: escaped(text === '' ? '' : shown),
            class: shade || 'none',
            title: detail,
          }
        }),
      ]),
  }))
  const known = sections.filter(({ lines }) => lines.length > 0)
  if (known.length === 0) return ''
  return table({
    caption: `${scenario.title}: ratios to ${names.join(', ')}, median of the rounds, from least to most`,
    class: 'figures',
    head: ['Target', ...names],
    sections: known,
  })
}
