import { comparisonOf, figuresOf } from '../../record/compare.ts'
import type {
  Metric,
  RunRecord,
  ScenarioRecord,
  TargetRecord,
} from '../../record/record.ts'
import { failuresOf } from '../../record/troubles.ts'
import { none, ratioText, ratioWithSpread } from '../../record/words.ts'
import { groups } from '../../scenarios/scenario.ts'

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
