import type { RunRecord } from '../../record/record.ts'
import { type Block, folded, list, paragraph } from './blocks.ts'

/** Whether the run came to its end, where and how it was measured, and its limits. */
export const introduction = (record: RunRecord): readonly Block[] => [
  ...(record.complete ? [] : [interrupted]),
  {
    kind: 'facts',
    pairs: [
      ['Machine', machineText(record)],
      ['Versions', versionsText(record)],
      ...record.setting,
    ],
  },
  paragraph(limitText(record)),
  folded('What these figures can’t show', list(limits(record))),
  ...leftOutOfAll(record),
]

const interrupted: Block = {
  kind: 'warning',
  text: 'This run was interrupted. What stands here was measured; the rest was not, and some figures are of fewer rounds than others.',
}

/** `2026-11-21 09:30 UTC, took 1 h 2 min`. */
export const runText = ({ startedAt, seconds }: RunRecord): string =>
  `${whenText(startedAt)}, ${durationText(seconds)}`

/** `2026-11-21 09:30 UTC`, or whatever the record says when that is no time. */
export const whenText = (startedAt: string): string => {
  const when = new Date(startedAt)
  if (Number.isNaN(when.getTime())) return startedAt
  return `${when.toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** `took 1 h 2 min`. */
const durationText = (seconds: number): string => {
  if (!(seconds >= 60)) return `took ${Math.max(0, Math.round(seconds || 0))} s`
  const minutes = Math.round(seconds / 60)
  const hours = Math.floor(minutes / 60)
  return hours > 0 ? `took ${hours} h ${minutes % 60} min` : `took ${minutes} min`
}

/** `2 cores, Example CPU, 7.7 GiB, Linux 6.1`. */
const machineText = ({ machine }: RunRecord): string => {
  const { cpus, model, memoryBytes, kernel } = machine
  const cores = `${cpus} core${cpus === 1 ? '' : 's'}`
  return `${cores}, ${model}, ${(memoryBytes / 2 ** 30).toFixed(1)} GiB of memory, ${kernel}`
}

/** `haproxy 2.6.12, nginx 1.22.1`. */
const versionsText = ({ versions }: RunRecord): string =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

/** Whether traffic was measured, from clients to backends, or something within a program. */
const hasTraffic = ({ yardsticks }: RunRecord): boolean => yardsticks.length > 0

const limitText = (record: RunRecord): string =>
  `One machine${hasTraffic(record) ? ', whose cores client, proxy and backends share; no real wire' : ''}. Good for comparing these with each other, and for nothing else.`

const limitsOfTraffic = ({ machine }: RunRecord): readonly string[] => [
  `Everything ran on one machine: client, proxy and backends shared its ${machine.cpus} cores. A proxy that needs less CPU leaves more to the others, so the differences are not those of proxies on machines of their own.`,
  'There was no wire: links were virtual or there were none. Network cards, their offloads and real latencies are not in these figures.',
]

const limits = (record: RunRecord): readonly string[] => [
  ...(hasTraffic(record) ? limitsOfTraffic(record) : []),
  'The figures are good for comparison with each other, within this run. They don’t tell what can be done elsewhere.',
  `Each is the median of ${roundsText(record)}. Targets were measured by turns, ratios were taken within each round, and one counts as better or worse only when all rounds agree, by more than they scatter (Student’s t, 95 %). “even”: 1 lies within the rounds’ ratios, so that they disagree on who was ahead. “?”: they agree, but no better than chance. With a hundred ratios, expect a few that are chance.`,
]

/** How many rounds there were: those of the scenario that had the most. */
const roundsText = ({ scenarios }: RunRecord): string => {
  let most = 0
  for (const { outcomes } of scenarios)
    for (const { round } of outcomes) most = Math.max(most, round + 1)
  return most === 1 ? 'a single round' : `at most ${most} rounds`
}

const leftOutOfAll = ({ leftOut }: RunRecord): readonly Block[] =>
  leftOut.length === 0
    ? []
    : [
        paragraph('Not measured here:', 'muted'),
        ...list(
          leftOut.map(({ name, why }) => `${name}: ${why}`),
          'notes',
        ),
      ]
