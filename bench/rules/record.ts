import type { Goal, LeftOut, Metric, Outcome, ScenarioRecord } from '../record/record.ts'
import { measuredCaptures } from './captures.ts'
import { type RuleFigures, type Step, steps } from './measure.ts'

const titles: Readonly<Record<Step, string>> = {
  first: 'first sync',
  added: 'one VIP added',
  removed: 'one VIP removed',
  unchanged: 'the same wanted state once more',
  endpoint: 'one endpoint came to one Service',
}

const metrics: readonly Metric[] = [
  { name: 'ms', title: 'Time', unit: 'ms', better: 'lower', decimals: 1 },
  { name: 'tools', title: 'Tools run', unit: '', better: 'lower', decimals: 0 },
]

/** Milliseconds at 10 000 VIPs: the first sync, by how a capture's name begins. */
const firstGoals: readonly (readonly [name: string, ms: number])[] = [
  ['nftables', 2000],
  ['iptables', 4000],
]
const changeGoalMs = 50
const goalsAt = 10_000

/** One number of VIPs: a scenario for each kind of sync, with the captures for targets. */
export const ruleScenarios = (
  vips: number,
  figures: readonly RuleFigures[],
): readonly ScenarioRecord[] =>
  steps
    .map(step => scenarioOf(vips, step, figures))
    .filter(({ outcomes, leftOut }) => outcomes.length + leftOut.length > 0)

const scenarioOf = (
  vips: number,
  step: Step,
  figures: readonly RuleFigures[],
): ScenarioRecord => ({
  name: `rules-${step}-${vips}`,
  group: `Rules for ${vips.toLocaleString('en-US')} VIPs`,
  title: `${titles[step]}, ${vips.toLocaleString('en-US')} VIPs`,
  about:
    'From wanted state to rules in the kernel, in a network namespace of its own; a change that is made several times has a round for each.',
  metrics,
  notes: [],
  goals: vips === goalsAt ? goalsOf(step) : [],
  outcomes: figures.flatMap(one => outcomesOf(one, step)),
  // What can't do the first can't do the others: to say it once is enough.
  leftOut: step === 'first' ? leftOutOf(figures) : [],
})

const leftOutOf = (figures: readonly RuleFigures[]): readonly LeftOut[] =>
  figures.flatMap(({ capture, reason }) =>
    reason === '' ? [] : [{ name: capture, why: reason }],
  )

const outcomesOf = ({ capture, costs }: RuleFigures, step: Step): readonly Outcome[] =>
  (costs?.[step] ?? []).map(({ ms, tools }, round) => ({
    target: capture,
    round,
    sample: { figures: { ms, tools }, errors: {} },
  }))

const goalsOf = (step: Step): readonly Goal[] =>
  measuredCaptures.flatMap(({ name }) => {
    const atMost = goalMs(step, name)
    return atMost === undefined ? [] : [{ target: name, metric: 'ms', atMost }]
  })

const goalMs = (step: Step, capture: string): number | undefined => {
  if (step === 'first') return firstGoals.find(([name]) => capture.startsWith(name))?.[1]
  return step === 'added' || step === 'removed' ? changeGoalMs : undefined
}
