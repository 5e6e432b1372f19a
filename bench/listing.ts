import type { Io } from '#usher/cli/io'
import { planOf } from './plan.ts'
import { aligned, columnWidths } from '#usher/cli/columns'
import type { Scenario } from './scenarios/scenario.ts'
import type { BenchOptions } from './bench.ts'
import type { Topology } from './topology/topology.ts'

/** What `--list` prints: what would be measured here, and what would be left out and why. */
export const listing = async (
  options: BenchOptions,
  topology: Pick<Topology, 'kind'>,
  { out }: Io,
): Promise<number> => {
  const { scenarios, targets } = planOf(options, '')
  const rows: string[][] = []
  for (const target of targets) {
    const why = await target.whyNot(topology)
    rows.push([target.name, target.title, why === '' ? '' : `left out: ${why}`])
  }
  out(`Targets:\n${indented(rows)}\n\n`)
  out(`Scenarios, by group:\n${indented(scenarios.map(scenarioRow))}\n`)
  return 0
}

const scenarioRow = ({ group, name, title }: Scenario): string[] => [group, name, title]

const indented = (rows: readonly string[][]): string => {
  const widths = columnWidths(rows)
  return rows.map(row => aligned(row, widths, '  ', false)).join('\n')
}
