import { aligned, columnWidths } from '../src/cli/columns.ts'
import { UsageError } from '../src/config/usage-error.ts'
import type { Plan } from './measure.ts'
import { scenarios } from './scenarios/all.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { chooseScenarios, chooseTargets, takingPart } from './selection.ts'
import type { BenchOptions, Io } from './setup.ts'
import { allTargets } from './targets/all-targets.ts'
import { givenTarget } from './targets/direct.ts'
import type { Target } from './targets/target.ts'
import { usherTarget } from './targets/usher.ts'
import type { Topology } from './topology/topology.ts'

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
