import { aligned, columnWidths } from '../src/cli/columns.ts'
import { UsageError } from '../src/config/usage-error.ts'
import type { Plan } from './measure.ts'
import { scenarios } from './scenarios/all.ts'
import { groups, type Scenario } from './scenarios/scenario.ts'
import type { BenchOptions, Io } from './setup.ts'
import { allTargets } from './targets/all-targets.ts'
import { givenTarget } from './targets/direct.ts'
import type { Target } from './targets/target.ts'
import { usherTarget } from './targets/usher.ts'
import type { Topology } from './topology/topology.ts'

/** What was asked for, as the flags of `usher bench` say it. */
interface Wishes {
  readonly quick: boolean
  /** Lists of names, as often as the flag was given. */
  readonly only: readonly (readonly string[])[]
  readonly targets: readonly (readonly string[])[]
}

/** What `--quick` compares: one capture stands for all, the floor is left out. */
const quickTargets = [
  'direct',
  'usher',
  'usher-linux',
  'usher-portable',
  'usher-nftables',
  'usher-mode-nftables',
  'usher-mode-iptables',
  'haproxy',
  'haproxy-copy',
  'nginx',
]

/**
 * The scenarios to measure, in the order of `all`. Throws UsageError for a name that is
 * neither a scenario nor a group.
 */
const chooseScenarios = (
  { only, quick }: Wishes,
  all: readonly Scenario[],
): readonly Scenario[] => {
  const wanted = new Set(only.flat())
  const known = [...Object.keys(groups), ...all.map(({ name }) => name)]
  refuseStrangers('--only', wanted, known)
  if (wanted.size === 0) return quick ? all.filter(scenario => scenario.quick) : all
  return all.filter(({ name, group }) => wanted.has(name) || wanted.has(group))
}

/**
 * The targets to measure, in the order of `all`; those that were `given` as addresses or
 * commands always. Throws UsageError for a name that none has.
 */
const chooseTargets = (
  { targets, quick }: Wishes,
  all: readonly Target[],
  given: readonly Target[],
): readonly Target[] => {
  const wanted = new Set(targets.flat())
  const known = [...all, ...given].map(({ name }) => name)
  const twice = known.find((name, i) => known.indexOf(name) !== i)
  if (twice !== undefined)
    throw new UsageError(
      `--target: ${twice} is there already; give another name`,
      'bench',
    )
  refuseStrangers('--targets', wanted, known)
  if (wanted.size === 0 && quick) for (const name of quickTargets) wanted.add(name)
  const chosen = wanted.size === 0 ? all : all.filter(({ name }) => wanted.has(name))
  return [...chosen, ...given]
}

/** Whether a target tells something in that scenario that its siblings don't. */
export const isMainlyFor = (
  target: Pick<Target, 'name' | 'mainlyFor'>,
  { name, group, targets }: Pick<Scenario, 'name' | 'group' | 'targets'>,
): boolean => {
  if (targets !== undefined) return targets.includes(target.name)
  const { mainlyFor } = target
  return mainlyFor === undefined || mainlyFor.includes(name) || mainlyFor.includes(group)
}

/** Targets that were asked for by name take part in everything that they can do. */
const takingPart = (
  { targets }: Pick<Wishes, 'targets'>,
  chosen: readonly Target[],
  scenarios: readonly Scenario[],
): readonly Target[] =>
  targets.length > 0
    ? chosen.map(inEverything)
    : chosen.filter(target => scenarios.some(scenario => isMainlyFor(target, scenario)))

const inEverything = (target: Target): Target => {
  const { mainlyFor, ...others } = target
  return mainlyFor === undefined ? target : others
}

const refuseStrangers = (
  flag: string,
  wanted: ReadonlySet<string>,
  known: readonly string[],
): void => {
  for (const name of wanted)
    if (!known.includes(name))
      throw new UsageError(
        `${flag}: ${JSON.stringify(name)} is none of them; give ${known.join(', ')}`,
        'bench',
      )
}

const rounds = { quick: 3, full: 5 } as const
/** wrk measures whole seconds. */
const seconds = { quick: 1, full: 2 } as const

/** What to measure, as the flags say it. Throws UsageError for a name that nothing has. */
export const planOf = (options: BenchOptions): Plan => {
  const length = options.quick ? 'quick' : 'full'
  const chosen = scenariosOf(options)
  const targets = chooseTargets(options, allTargets, [
    ...baselineOf(options),
    ...options.target.map(({ name, protocol, ...at }) => givenTarget(name, protocol, at)),
  ])
  return {
    scenarios: chosen,
    targets: takingPart(options, targets, chosen),
    rounds: options.rounds || rounds[length],
    seconds: options.seconds || seconds[length],
  }
}

const scenariosOf = (options: BenchOptions): Plan['scenarios'] => {
  const chosen = chooseScenarios(options, scenarios)
  if (options.backend.length === 0) return chosen
  const byHttp = chosen.filter(scenario => scenario.httpOnly)
  if (byHttp.length > 0) return byHttp
  const possible = scenarios.filter(({ httpOnly }) => httpOnly).map(({ name }) => name)
  throw new UsageError(
    `--only: none of them can be measured with --backend; give ${possible.join(', ')}`,
    'bench',
  )
}

const baselineOf = ({ baseline }: BenchOptions): readonly Target[] => {
  const command = baseline.split(/\s+/).filter(word => word !== '')
  if (command.length === 0) return []
  return [usherTarget({ name: 'baseline', capture: 'listen', command })]
}

/** What `--list` prints: what would be measured here, and what would be left out and why. */
export const listing = async (
  options: BenchOptions,
  topology: Pick<Topology, 'kind'>,
  { out }: Io,
): Promise<number> => {
  const plan = planOf(options)
  const rows: string[][] = []
  for (const target of plan.targets) {
    const why = await target.unsupportedReason(topology)
    rows.push([target.name, target.title, why === '' ? '' : `left out: ${why}`])
  }
  out(`Targets:\n${indented(rows)}\n\n`)
  out(`Scenarios, by group:\n${indented(plan.scenarios.map(scenarioRow))}\n`)
  return 0
}

const scenarioRow = ({ group, name, title, unsupportedReason }: Scenario): string[] => {
  const why = unsupportedReason?.() ?? ''
  return [group, name, title, why === '' ? '' : `left out: ${why}`]
}

const indented = (rows: readonly string[][]): string => {
  const widths = columnWidths(rows)
  return rows.map(row => aligned(row, widths, '  ', false)).join('\n')
}
