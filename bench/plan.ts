import { aligned, columnWidths } from '../src/cli/text-table.ts'
import { UsageError } from '../src/config/usage-error.ts'
import type { Plan } from './measure.ts'
import { scenarios } from './scenarios/all.ts'
import { groups, isMainlyFor, type Scenario } from './scenarios/scenario.ts'
import type { BenchOptions, Io } from './setup.ts'
import { allTargets } from './targets/all-targets.ts'
import { givenTarget } from './targets/direct.ts'
import type { Target } from './targets/target.ts'
import { usherTarget } from './targets/usher.ts'
import type { Topology } from './topology/topology.ts'

/** What `--quick` compares: one capture stands for all, the floor is left out. */
const quickTargets = new Set([
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
])

const rounds = { quick: 3, full: 5 } as const
/** wrk measures whole seconds. */
const seconds = { quick: 1, full: 2 } as const

/** What to measure, as the flags say it. Throws UsageError for a name that nothing has. */
export const planOf = (options: BenchOptions): Plan => {
  const length = options.quick ? 'quick' : 'full'
  const chosen = scenariosOf(options)
  return {
    scenarios: chosen,
    targets: targetsOf(options, chosen),
    rounds: options.rounds || rounds[length],
    seconds: options.seconds || seconds[length],
  }
}

/** In the order of all; with `--backend` those that take nothing but HTTP. */
const scenariosOf = ({ only, quick, backend }: BenchOptions): Plan['scenarios'] => {
  const wanted = new Set(only.flat())
  const names = [...Object.keys(groups), ...scenarios.map(({ name }) => name)]
  refuseStrangers('--only', wanted, names)
  const chosen = scenarios.filter(one =>
    wanted.size === 0
      ? one.quick || !quick
      : wanted.has(one.name) || wanted.has(one.group),
  )
  if (backend.length === 0) return chosen
  const byHttp = chosen.filter(scenario => scenario.httpOnly)
  if (byHttp.length > 0) return byHttp
  const possible = scenarios.filter(({ httpOnly }) => httpOnly).map(({ name }) => name)
  throw new UsageError(
    `--only: none of them can be measured with --backend; give ${possible.join(', ')}`,
    'bench',
  )
}

/**
 * In the order of all; those that were given as addresses or commands always. Those that were asked
 * for by name take part in everything that they can do, others where they tell something.
 */
const targetsOf = (
  { target, targets, quick, baseline }: BenchOptions,
  chosen: Plan['scenarios'],
): readonly Target[] => {
  const command = baseline.split(/\s+/).filter(word => word !== '')
  const given = [
    ...(command.length === 0
      ? []
      : [usherTarget({ name: 'baseline', capture: 'listen', command })]),
    ...target.map(({ name, protocol, ...at }) => givenTarget(name, protocol, at)),
  ]
  const wanted = new Set(targets.flat())
  const known = [...allTargets, ...given].map(({ name }) => name)
  const twice = known.find((name, i) => known.indexOf(name) !== i)
  if (twice !== undefined)
    throw new UsageError(
      `--target: ${twice} is there already; give another name`,
      'bench',
    )
  refuseStrangers('--targets', wanted, known)
  if (wanted.size > 0)
    return [...allTargets.filter(({ name }) => wanted.has(name)), ...given].map(
      inEverything,
    )
  return [
    ...(quick ? allTargets.filter(({ name }) => quickTargets.has(name)) : allTargets),
    ...given,
  ].filter(one => chosen.some(scenario => isMainlyFor(one, scenario)))
}

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
