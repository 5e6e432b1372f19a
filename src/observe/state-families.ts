import type { SourceStatus } from '../source/source.ts'
import type { OwnFamily, Sample } from './exposition.ts'

export interface StateReaders {
  readonly source: () => Pick<SourceStatus, 'lastGoodAt'>
  /** How many things cannot be honoured now. */
  readonly problems: () => number
  /** Epoch milliseconds; Date.now. */
  readonly epoch?: () => number
}

const plain = (value: number): Sample[] => [{ suffix: '', labels: '', value }]

/** What is wanted, and how old that knowledge is. */
export const stateFamilies = ({
  source,
  problems,
  epoch = Date.now,
}: StateReaders): readonly OwnFamily[] => [
  {
    name: 'usher_source_age_seconds',
    type: 'gauge',
    help: 'Seconds since the source last gave a good state or said that nothing has changed; absent before the first.',
    samples: () => {
      const { lastGoodAt } = source()
      return lastGoodAt === undefined
        ? []
        : plain(Math.max(0, epoch() - lastGoodAt) / 1000)
    },
  },
  {
    name: 'usher_problems',
    type: 'gauge',
    help: 'Objects, or parts of them, that cannot be honoured now; /status names them.',
    samples: () => plain(problems()),
  },
]
