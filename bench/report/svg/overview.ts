import type { RunRecord, ScenarioRecord, TargetRecord } from '../../record/record.ts'
import { formatFigure, none } from '../../record/words.ts'
import type { Drawing } from './drawing.ts'
import { element, fitted, label, widthOf } from './element.ts'
import { titled } from './chart.ts'
import { rowsOf, troubleText } from './rows.ts'
import {
  capitalized,
  groupsOf,
  standOf,
  subjectsOf,
  tallyText,
  yardsticksOf,
} from './verdicts.ts'

const lineHeight = 24
const widestColumn = 100
const shareOfNames = 0.5

/**
 * Every scenario in a line: what the first Usher had, and how that stands beside each
 * yardstick. Undefined when there is nothing to compare.
 */
export const overviewDrawing = (
  record: RunRecord,
  width: number,
): Drawing | undefined => {
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
