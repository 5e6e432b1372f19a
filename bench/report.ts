import type { CpuSeconds } from './load/measure.ts'
import { errorsOf, samplesOf, type ScenarioResult, valuesByRound } from './results.ts'
import { ratiosByRound, type Spread, spreadOf } from './statistics.ts'
import { formatTable } from './table.ts'

const none = '-'

/** One scenario as lines of text: a row per target, then the goal and what to mind. */
export const reportScenario = (
  result: ScenarioResult,
  targets: readonly string[],
): string[] => {
  const { name, title } = result.scenario
  const shown = targets.filter(target => hasRuns(result, target))
  const rows = shown.map(target => rowOf(result, target))
  return [
    `${name}: ${title}`,
    ...indent(formatTable(withoutEmptyColumns([headOf(result), ...rows]))),
    ...indent([...goalLines(result), ...shown.flatMap(target => notes(result, target))]),
  ]
}

const hasRuns = (result: ScenarioResult, target: string): boolean =>
  result.outcomes.some(outcome => outcome.target === target)

const indent = (lines: readonly string[]): string[] => lines.map(line => `  ${line}`)

/** A column in which no target has anything says nothing: it goes. */
const withoutEmptyColumns = (rows: readonly (readonly string[])[]): string[][] => {
  const isUsed = (column: number) =>
    rows.some((row, index) => index > 0 && row[column] !== none)
  return rows.map(row => row.filter((_, column) => isUsed(column)))
}

const headOf = ({ scenario }: ScenarioResult): string[] => [
  'target',
  scenario.unit,
  'min..max',
  'to direct',
  'to pipe (min..max)',
  `proxy CPU ${scenario.costUnit ?? ''}`,
  'cores: client',
  'backend',
  'proxy',
  'others',
]

/** Targets that are there to be compared with. */
const isYardstick = (target: string): boolean => target === 'direct' || target === 'pipe'

const rowOf = (result: ScenarioResult, target: string): string[] => {
  const { decimals } = result.scenario
  const samples = samplesOf(result, target)
  const value = spreadOf(samples.map(sample => sample.value))
  const cost = spreadOf(samples.flatMap(sample => sample.cost ?? []))
  const busy = coresOf(result, target)
  const toPipe = isYardstick(target) ? undefined : ratioOf(result, target, 'pipe')
  const toDirect = target === 'direct' ? undefined : ratioOf(result, target, 'direct')
  return [
    target,
    value ? figure(value.median, decimals) : none,
    value ? `${figure(value.min, decimals)}..${figure(value.max, decimals)}` : none,
    toDirect ? toDirect.median.toFixed(2) : none,
    toPipe ? ratioText(toPipe) : none,
    cost ? figure(cost.median, 1) : none,
    ...[busy.generator, busy.backend, busy.proxy, busy.others].map(
      cores => cores?.toFixed(2) ?? none,
    ),
  ]
}

const figure = (value: number, decimals: number): string =>
  value.toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })

const ratioText = ({ median, min, max }: Spread): string =>
  `${median.toFixed(2)} (${min.toFixed(2)}..${max.toFixed(2)})`

const ratioOf = (result: ScenarioResult, target: string, base: string) =>
  spreadOf(ratiosByRound(valuesByRound(result, target), valuesByRound(result, base)))

/** Median over the rounds of the cores each process kept busy. */
const coresOf = (result: ScenarioResult, target: string): CpuSeconds => {
  const of = (process: keyof CpuSeconds): number | undefined =>
    spreadOf(samplesOf(result, target).flatMap(sample => sample.cores?.[process] ?? []))
      ?.median
  return {
    generator: of('generator'),
    backend: of('backend'),
    proxy: of('proxy'),
    others: of('others'),
  }
}

const goalLines = (result: ScenarioResult): string[] => {
  const { goal, decimals, unit } = result.scenario
  if (!hasRuns(result, 'usher')) return []
  if (goal.kind === 'value') {
    const value = spreadOf(samplesOf(result, 'usher').map(sample => sample.value))?.median
    const reached = value === undefined ? undefined : value <= goal.atMost
    const text = value === undefined ? none : figure(value, decimals)
    return [`goal: usher <= ${goal.atMost} ${unit}: ${text}, ${verdict(reached)}`]
  }
  const ratio = ratioOf(result, 'usher', 'pipe')?.median
  const reached = ratio === undefined ? undefined : ratio >= goal.atLeast
  const text = ratio?.toFixed(3) ?? none
  return [`goal: usher/pipe >= ${goal.atLeast.toFixed(1)}: ${text}, ${verdict(reached)}`]
}

const verdict = (reached: boolean | undefined): string =>
  reached === undefined ? 'not measured' : reached ? 'reached' : 'MISSED'

/** Shares of a core from which, and up to which, a process counts as busy and as not. */
const saturated = 0.9
const unsaturated = 0.8
/** Cores that programs outside the bench may use before a figure is in doubt. */
const quiet = 0.1

const notes = (result: ScenarioResult, target: string): string[] => {
  const lines = [...errorsOf(result, target)].map(
    ([name, times]) => `${target}: ERROR ${name} (${figure(times, 0)} times)`,
  )
  lines.push(...asides(result, target))
  const { generator = 0, proxy, others = 0 } = coresOf(result, target)
  if (generator > saturated && (proxy ?? 0) < unsaturated) {
    const rest = proxy === undefined ? '' : `, the proxy ${proxy.toFixed(2)}`
    const used = `${generator.toFixed(2)} of a core${rest}`
    lines.push(`${target}: the generator was the bottleneck (${used})`)
  }
  if (others > quiet)
    lines.push(`${target}: IN DOUBT, other programs used ${others.toFixed(2)} cores`)
  return lines
}

const asides = (result: ScenarioResult, target: string): string[] => {
  const { aside, decimals, unit } = result.scenario
  const value = spreadOf(samplesOf(result, target).flatMap(s => s.aside ?? []))?.median
  if (aside === undefined || value === undefined) return []
  return [`${target}: ${figure(value, decimals)} ${unit} ${aside}`]
}
