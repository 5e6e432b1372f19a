import { figuresOf } from '../../record/compare.ts'
import type {
  Metric,
  RunRecord,
  ScenarioRecord,
  TargetRecord,
} from '../../record/record.ts'
import { type Spread, spreadOf } from '../../record/statistics.ts'
import { errorsOf, failuresOf } from '../../record/troubles.ts'

/** What a report tells of one target in one scenario. */
export interface Row {
  readonly target: TargetRecord
  /** For its colour. */
  readonly look: Look
  /** Of every round, by the order of rounds. */
  readonly figures: readonly number[]
  /** Undefined without any figure. */
  readonly spread: Spread | undefined
  /** Runs that gave no figures; not more than `runs`. */
  readonly failed: number
  readonly runs: number
  /** The reason that most of them gave, '' when none failed. */
  readonly failure: string
  /** How many errors there were in runs that gave figures. */
  readonly errors: number
  /** Why it was not measured at all, '' when it was. */
  readonly leftOut: string
}

/** Classes of colour: one strong hue for the first Usher, a paler one for its variants. */
export type Look = 'direct' | 'floor' | 'usher' | 'variant' | 'peer' | 'given'

/** All targets of a run in their order, each with what it did in a scenario. */
export const rowsOf = (
  { targets }: Pick<RunRecord, 'targets'>,
  scenario: ScenarioRecord,
  metric: Pick<Metric, 'name'>,
): readonly Row[] => {
  const first = targets.find(({ kind }) => kind === 'usher')
  return targets.map(target => {
    const figures = figuresOf(scenario, target.name, metric)
    const failures = [...failuresOf(scenario, target.name)]
    const [failure = ''] = failures.toSorted((a, b) => b[1] - a[1])[0] ?? []
    return {
      target,
      look: target.kind === 'usher' && target !== first ? 'variant' : target.kind,
      figures,
      spread: spreadOf(figures),
      failed: sum(failures.map(([, times]) => times)),
      runs: scenario.outcomes.filter(outcome => outcome.target === target.name).length,
      failure,
      errors: sum([...errorsOf(scenario, target.name).values()]),
      leftOut: scenario.leftOut.find(({ name }) => name === target.name)?.why ?? '',
    }
  })
}

/** What stands in place of a figure: that it failed and why, or why it wasn't tried. */
export const gapText = (row: Row): string => {
  if (row.failed > 0) return `failed: ${row.failure}`
  if (row.leftOut !== '') return `left out: ${row.leftOut}`
  return row.runs > 0 ? 'no figure' : 'not measured'
}

/** What has to be known of a figure besides its spread, in words; '' when nothing has. */
export const troubleText = (row: Row): string => {
  const parts: string[] = []
  if (row.failed > 0)
    parts.push(`${row.failed} of ${row.runs} runs failed (${row.failure})`)
  if (row.errors > 0)
    parts.push(
      `${row.errors.toLocaleString('en-US')} error${row.errors === 1 ? '' : 's'}`,
    )
  return parts.join(', ')
}

const sum = (values: readonly number[]): number => {
  let total = 0
  for (const value of values) total += value
  return total
}
