import { formatTable } from '../table.ts'
import type { Cost, RuleFigures } from './measure.ts'

/** Milliseconds at 10 000 VIPs: the first sync, by how a capture's name begins. */
const firstGoals: readonly (readonly [name: string, ms: number])[] = [
  ['nftables', 2000],
  ['iptables', 4000],
]
const changeGoalMs = 50
const goalsAt = 10_000

/** The figures as lines of text, with the goals and whether they were reached. */
export const reportRules = (figures: readonly RuleFigures[]): string[] => [
  'rules: from wanted state to rules in the kernel; in brackets how many tools were run',
  ...formatTable([
    ['', 'VIPs', 'first sync', 'one added', 'one removed', 'unchanged', 'one endpoint'],
    ...figures.map(row),
  ]).map(line => `  ${line}`),
]

const row = (figures: RuleFigures): string[] => {
  const { capture, vips, first, added, removed, unchanged, endpoint, reason } = figures
  if (reason !== '') return [capture, String(vips), `not measured: ${reason}`]
  const firstGoal = firstGoals.find(([name]) => capture.startsWith(name))?.[1]
  return [
    capture,
    String(vips),
    cell(first, vips === goalsAt ? firstGoal : undefined),
    ...[added, removed].map(cost =>
      cell(cost, vips === goalsAt ? changeGoalMs : undefined),
    ),
    cell(unchanged),
    cell(endpoint),
  ]
}

const cell = (cost: Cost | undefined, goalMs?: number): string => {
  if (cost === undefined) return '-'
  const { ms, tools } = cost
  const text = `${ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms [${tools}]`
  if (goalMs === undefined) return text
  return ms <= goalMs ? `${text} ok` : `${text} MISSED ${goalMs}`
}
