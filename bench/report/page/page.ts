import type { RunRecord, TargetRecord } from '../../record/record.ts'
import { type Block, folded, type Page, type Section } from './blocks.ts'
import { groupParts } from './groups.ts'
import { introduction, runText, whenText } from './introduction.ts'
import { overview } from './overview.ts'

/** All that a report of a run tells, for a writer of HTML or Markdown. */
export const pageOf = (record: RunRecord): Page => ({
  title: record.title,
  when: runText(record),
  command: record.command,
  introduction: introduction(record),
  overview: { id: 'overview', title: 'Overview', blocks: overview(record) },
  key: [
    'Bar: from zero to the median of the rounds',
    'Dots: each round',
    'Line: least to most',
    'Dashed: the direct path',
    '!: something went wrong',
  ],
  groups: groupParts(record),
  appendix: appendix(record),
})

/** What is needed to measure the same again, or to doubt it. */
const appendix = (record: RunRecord): Section => {
  const { machine, versions } = record
  return {
    id: 'appendix',
    title: 'How to repeat it',
    blocks: [
      { kind: 'code', text: record.command },
      {
        kind: 'facts',
        pairs: [
          ['Started', whenText(record.startedAt)],
          ['Cores', String(machine.cpus)],
          ['Processor', machine.model],
          ['Memory', `${(machine.memoryBytes / 2 ** 30).toFixed(1)} GiB`],
          ['Kernel', machine.kernel],
          ...(versions['node'] === undefined ? [['Node', machine.node] as const] : []),
          ...Object.entries(versions),
          ...record.setting,
        ],
      },
      { kind: 'heading', text: 'Targets, and how each was started' },
      ...record.targets.flatMap(targetBlocks),
    ],
  }
}

const targetBlocks = ({
  name,
  title,
  command,
  config,
}: TargetRecord): readonly Block[] => [
  { kind: 'named', name, text: title },
  ...(command === '' ? [] : [{ kind: 'code', text: command } as const]),
  ...(config === ''
    ? []
    : [folded(`Configuration of ${name}`, [{ kind: 'code', text: config }])]),
]
