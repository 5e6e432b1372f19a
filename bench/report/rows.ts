import { comparisonOf, figuresOf, type Spread, spreadOf } from '../record/compare.ts'
import {
  errorsOf,
  failuresOf,
  none,
  ratioText,
  ratioWithSpread,
} from '../record/findings.ts'
import type { Metric, RunRecord, ScenarioRecord, TargetRecord } from '../record/record.ts'
import { groups } from '../scenarios/scenario.ts'

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
type Look = 'direct' | 'floor' | 'usher' | 'variant' | 'peer' | 'given'

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

/** How a target stands beside a yardstick, as a reader sees it. */
export interface Stand {
  /** `0.55`, `even`, or `-` when there is nothing to compare. */
  readonly text: string
  /** `better`, `worse`, or why the text is no verdict; '' when the text says it all. */
  readonly word: string
  /** Class of the cell's colour, '' for none. */
  readonly shade: string
  /** The spread, or why there is none. */
  readonly detail: string
}

/** One target beside one yardstick, by one metric. */
export const standOf = (
  scenario: ScenarioRecord,
  metric: Metric,
  target: TargetRecord,
  yardstick: Pick<TargetRecord, 'name' | 'kind'>,
): Stand => {
  if (target.name === yardstick.name)
    return { text: '', word: '', shade: '', detail: 'itself' }
  const found = comparisonOf(scenario, metric, target.name, yardstick.name)
  if (found === undefined) {
    const { word, detail } = noneReason(scenario, metric, [target.name, yardstick.name])
    return { text: none, word, shade: '', detail }
  }
  const text = ratioText(found)
  const detail = `${ratioWithSpread(found)} of ${yardstick.name} in ${found.rounds} round${found.rounds === 1 ? '' : 's'}`
  if (found.rounds < 2) return { text, word: 'one round', shade: '', detail }
  if (found.verdict === 'even') return { text, word: '', shade: 'even', detail }
  // No proxy is expected to be ahead of the path without one.
  if (yardstick.kind === 'direct' && found.verdict === 'worse')
    return { text, word: found.verdict, shade: 'detour', detail }
  const shade = `${found.verdict}-${strengthOf(found.median)}`
  return { text, word: found.verdict, shade, detail }
}

/** 1 to a quarter more, 2 below twice as much, 3 beyond. */
const strengthOf = (ratio: number): 1 | 2 | 3 => {
  const factor = ratio > 0 ? Math.max(ratio, 1 / ratio) : Infinity
  if (factor >= 2) return 3
  return factor > 1.25 ? 2 : 1
}

/** In a word or two, for a narrow cell, and in full. */
const noneReason = (
  scenario: ScenarioRecord,
  metric: Metric,
  names: readonly string[],
): Pick<Stand, 'word' | 'detail'> => {
  const missing = names.filter(name => figuresOf(scenario, name, metric).length === 0)
  for (const name of missing) {
    const [failure] = failuresOf(scenario, name).keys()
    if (failure !== undefined)
      return { word: `${name} failed`, detail: `${name} failed: ${failure}` }
  }
  for (const name of missing) {
    const left = scenario.leftOut.find(each => each.name === name)
    if (left !== undefined) return { word: 'left out', detail: `${name}: ${left.why}` }
  }
  const [name] = missing
  if (name !== undefined) {
    const ran = scenario.outcomes.some(({ target }) => target === name)
    return ran
      ? { word: '', detail: `${name} has no such figure` }
      : { word: 'not measured', detail: `${name} was not measured` }
  }
  return { word: 'no ratio', detail: 'no round has both, or the other is zero' }
}

/** Who is compared with the yardsticks: Usher, or without it what was given by address. */
export const subjectsOf = ({
  targets,
  yardsticks,
}: Pick<RunRecord, 'targets' | 'yardsticks'>): readonly TargetRecord[] => {
  if (!targets.some(({ name }) => yardsticks.includes(name))) return []
  const ushers = targets.filter(({ kind }) => kind === 'usher')
  return ushers.length > 0 ? ushers : targets.filter(({ kind }) => kind === 'given')
}

/** Yardsticks that took part, in their order, without `subject`. */
export const yardsticksOf = (
  { targets, yardsticks }: Pick<RunRecord, 'targets' | 'yardsticks'>,
  subject?: TargetRecord,
): readonly TargetRecord[] =>
  yardsticks.flatMap(yardstick =>
    targets.filter(({ name }) => name === yardstick && name !== subject?.name),
  )

/** `3 better · 5 even · 12 worse`, of the first metrics of all scenarios. */
export const tallyText = (
  record: RunRecord,
  target: TargetRecord,
  yardstick: Pick<TargetRecord, 'name'>,
): string => {
  const counts = { better: 0, even: 0, worse: 0 }
  for (const scenario of record.scenarios) {
    const [metric] = scenario.metrics
    if (metric === undefined || target.name === yardstick.name) continue
    const found = comparisonOf(scenario, metric, target.name, yardstick.name)
    if (found !== undefined && found.rounds > 1) counts[found.verdict] += 1
  }
  const parts = Object.entries(counts).filter(([, count]) => count > 0)
  return parts.map(([verdict, count]) => `${count} ${verdict}`).join(' · ')
}

export interface Group {
  readonly name: string
  readonly title: string
  readonly scenarios: readonly ScenarioRecord[]
}

/** Scenarios by group, both in the order in which they first come. */
export const groupsOf = ({
  scenarios,
}: Pick<RunRecord, 'scenarios'>): readonly Group[] => {
  const found = new Map<string, ScenarioRecord[]>()
  for (const scenario of scenarios) {
    const group = found.get(scenario.group)
    if (group === undefined) found.set(scenario.group, [scenario])
    else group.push(scenario)
  }
  const titles = new Map<string, string>(Object.entries(groups))
  return [...found].map(([name, members]) => ({
    name,
    title: titles.get(name) ?? capitalized(name),
    scenarios: members,
  }))
}

/** `A name` for `a name`. */
export const capitalized = (text: string): string =>
  text.charAt(0).toUpperCase() + text.slice(1)
