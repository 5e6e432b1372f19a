import { comparisonOf, figuresOf } from '../../record/compare.ts'
import type {
  Metric,
  RunRecord,
  ScenarioRecord,
  TargetRecord,
} from '../../record/record.ts'
import { none, ratioWithSpread } from '../../record/words.ts'
import { standOf, yardsticksOf } from '../svg/verdicts.ts'
import type { Cell, Table } from './blocks.ts'

/** Ratios of every metric to every yardstick, with their spread over the rounds. */
export const ratioTable = (
  record: RunRecord,
  scenario: ScenarioRecord,
): readonly Table[] => {
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
