import type {
  LeftOut,
  Metric,
  Outcome,
  Sample,
  ScenarioRecord,
} from '../record/record.ts'
import { quantile } from '../control/figures.ts'
import { lower } from '../control/metrics.ts'
import { goalsOf } from './goals.ts'
import type { ModeFigures, ModeWish, SyncCost } from './measure.ts'
import { type Step, steps } from './protocol.ts'
import { streamScenarios } from './stream-record.ts'

const titles: Readonly<Record<Step, string>> = {
  first: 'first sync',
  unchanged: 'the periodic sync, when nothing has changed',
  endpoint: 'one endpoint of one Service moved',
  added: 'one Service added',
  removed: 'one Service removed',
  full: 'a full sync of what is there already, as after a flush',
}

const milliseconds = (name: string, title: string): Metric => lower(name, title, 'ms', 1)

const megabytes = (name: string, title: string): Metric => lower(name, title, 'MB', 0)

const count = (name: string, title: string): Metric => lower(name, title, '', 0)

const shared: readonly Metric[] = [
  milliseconds('wall', 'Whole'),
  milliseconds('wall p99', 'Whole p99'),
  milliseconds('tool', 'The tools alone'),
  milliseconds('cpu all', 'CPU time of all'),
  milliseconds('cpu', 'its own'),
  milliseconds('cpu tool', "its tools'"),
  megabytes('rss', "A tool's memory"),
  count('lines', 'Lines restored'),
  count('tools', 'Tools run'),
]

const own: readonly Metric[] = [
  milliseconds('own', "Usher's own"),
  milliseconds('own p99', "Usher's own p99"),
]

/** What the figure is that counts, and how it came about. */
const ofAll = {
  metrics: [milliseconds('beyond', 'Beyond the tools'), ...shared],
  about:
    'From a snapshot to rules in the kernel. Beyond the tools is the whole time less what those that are given rules take alone: on the same input, in a second network namespace with the same rules, just after. CPU times are means of all syncs of the kind.',
}
const ofOne = {
  metrics: [...own, ...shared],
  about:
    "From a snapshot to rules in the kernel. Usher's own is the whole time less that for which it waited for tools that are given rules. What they take alone, on the same input and the same rules, is beside it.",
}

/** Of fewer syncs the 99th percentile is the slowest. */
const fewestForP99 = 50

/** One number of Services: a scenario for each kind of sync, with the modes for targets. */
export const modeScenarios = (
  wish: ModeWish,
  figures: readonly ModeFigures[],
): readonly ScenarioRecord[] => [
  ...steps
    .map(step => scenarioOf(wish, step, figures))
    .filter(({ outcomes, leftOut }) => outcomes.length + leftOut.length > 0),
  ...streamScenarios(wish, figures),
]

const scenarioOf = (
  wish: ModeWish,
  step: Step,
  figures: readonly ModeFigures[],
): ScenarioRecord => ({
  name: `modes-${step}-${wish.services}`,
  group: `Kernel modes, ${words(wish.services)} Services`,
  title: `${titles[step]}, ${words(wish.services)} Services of ${wish.endpoints} endpoints`,
  ...(isOfAll(step) ? ofAll : ofOne),
  notes: figures.flatMap(one => noteOf(one, step)),
  goals: figures.flatMap(({ proxier, costs }) =>
    costs === undefined ? [] : goalsOf(proxier, step, wish),
  ),
  outcomes: figures.flatMap(one => outcomesOf(one, step)),
  // What can't do the first can't do the others: to say it once is enough.
  leftOut: step === 'first' ? leftOutOf(figures) : [],
})

const isOfAll = (step: Step): boolean => step === 'first' || step === 'full'

const noteOf = ({ proxier, costs }: ModeFigures, step: Step): readonly string[] => {
  const works = (costs?.[step] ?? []).map(({ work }) => work)
  if (works.length === 0) return []
  const kinds = [...new Set(works)].map(
    work => `${works.filter(one => one === work).length} ${work}`,
  )
  return [`${proxier}: ${kinds.join(', ')}.`]
}

const leftOutOf = (figures: readonly ModeFigures[]): readonly LeftOut[] =>
  figures.flatMap(({ proxier, reason }) =>
    reason === '' ? [] : [{ name: proxier, why: reason }],
  )

/** Many changes are one round: their median and the 99th percentile are the figures. */
const outcomesOf = ({ proxier, costs }: ModeFigures, step: Step): readonly Outcome[] => {
  const all = costs?.[step] ?? []
  const cpu = cpuOf(all)
  if (all.length < fewestForP99)
    return all.map((cost, round) => ({
      target: proxier,
      round,
      sample: { figures: { ...medians([cost]), ...cpu }, errors: {} },
    }))
  const figures = { ...medians(all), ...slowest(all), ...cpu }
  return [{ target: proxier, round: 0, sample: { figures, errors: {} } }]
}

/** Means: of a single tool the kernel tells its CPU time to 10 ms. */
const cpuOf = (costs: readonly SyncCost[]): Sample['figures'] => {
  const mean = (of: (cost: SyncCost) => number): number =>
    costs.reduce((sum, cost) => sum + of(cost), 0) / costs.length
  return {
    'cpu all': mean(({ cpuMs, toolCpuMs }) => cpuMs + toolCpuMs),
    cpu: mean(({ cpuMs }) => cpuMs),
    'cpu tool': mean(({ toolCpuMs }) => toolCpuMs),
  }
}

const ownMs = ({ wallMs, waitedMs }: SyncCost): number => wallMs - waitedMs

const medians = (costs: readonly SyncCost[]): Sample['figures'] =>
  figuresAt(costs, 0.5, {
    own: ownMs,
    beyond: ({ wallMs, toolMs }) => wallMs - toolMs,
    wall: ({ wallMs }) => wallMs,
    tool: ({ toolMs }) => toolMs,
    rss: ({ peakRssBytes }) => peakRssBytes / 1e6,
    lines: ({ lines }) => lines,
    tools: ({ tools }) => tools,
  })

const slowest = (costs: readonly SyncCost[]): Sample['figures'] =>
  figuresAt(costs, 0.99, { 'own p99': ownMs, 'wall p99': ({ wallMs }) => wallMs })

const figuresAt = (
  costs: readonly SyncCost[],
  share: number,
  figures: Readonly<Record<string, (cost: SyncCost) => number>>,
): Sample['figures'] =>
  Object.fromEntries(
    Object.entries(figures).flatMap(([name, of]) => {
      const value = quantile(costs.map(of), share)
      return value === undefined ? [] : [[name, value]]
    }),
  )

const words = (services: number): string => services.toLocaleString('en-US')
