import { quantile } from '../control/figures.ts'
import { lower } from '../control/metrics.ts'
import type { Goal, Metric, Sample, ScenarioRecord } from '../record/record.ts'
import type { LedFigures, LedWish } from './measure.ts'

export const ledName = 'connect-time'

/** What each kind of figures is told as. */
interface Kind {
  readonly name: string
  readonly title: string
  readonly about: string
  readonly metrics: readonly Metric[]
  /** At 20,000 Services of two endpoints. */
  readonly limits: readonly (readonly [metric: string, atMost: number])[]
  readonly samples: (figures: LedFigures) => readonly Sample['figures'][]
}

const at = (values: readonly number[], share: number): number =>
  quantile(values, share) ?? 0

const kinds: readonly Kind[] = [
  {
    name: 'first',
    title: 'first sync',
    about:
      'From a snapshot to programs that lead: they are checked by the kernel and attached, and tables are filled. The memory is what the kernel books on the tables.',
    metrics: [
      lower('cpu', 'CPU time', 'ms', 0),
      lower('wall', 'Whole', 'ms', 0),
      lower('memory', "The kernel's memory", 'MB', 1),
    ],
    limits: [
      ['cpu', 500],
      ['memory', 30],
    ],
    samples: ({ first }) =>
      first.map(({ cpuMs, wallMs, kernelBytes }) => ({
        cpu: cpuMs,
        wall: wallMs,
        memory: kernelBytes / 1e6,
      })),
  },
  {
    name: 'endpoint',
    title: 'one endpoint of one Service moved',
    about:
      'From a change in the model until a connect that began after the write has heard from the new endpoint; by then every connect goes there. Each round is of many changes, one after the other.',
    metrics: [
      lower('seen p99', 'Seen p99', 'ms', 2),
      lower('seen p50', 'Seen p50', 'ms', 2),
      lower('written p99', 'Written p99', 'ms', 2),
      lower('written p50', 'Written p50', 'ms', 2),
    ],
    limits: [['seen p99', 5]],
    samples: ({ changes }) =>
      changes.map(({ seenMs, writtenMs }) => ({
        'seen p99': at(seenMs, 0.99),
        'seen p50': at(seenMs, 0.5),
        'written p99': at(writtenMs, 0.99),
        'written p50': at(writtenMs, 0.5),
      })),
  },
  {
    name: 'dead',
    title: 'one of two endpoints refuses',
    about:
      'Connects one after the other. Nobody retries for them; where one has failed the next ones are led past it for a second.',
    metrics: [
      lower('failed', 'Failed', '%', 2),
      lower('connects', 'Connects', '', 0),
      lower('seconds', 'Within', 's', 1),
    ],
    limits: [['failed', 1]],
    samples: ({ dead }) =>
      dead.map(({ connects, failed, seconds }) => ({
        failed: (failed / connects) * 100,
        connects,
        seconds,
      })),
  },
]

/** One number of Services: a scenario for each kind of figures. */
export const ledScenarios = (
  wish: LedWish,
  figures: LedFigures,
): readonly ScenarioRecord[] => kinds.map(kind => scenarioOf(kind, wish, figures))

const scenarioOf = (
  { name, title, about, metrics, limits, samples }: Kind,
  { services, endpoints }: LedWish,
  figures: LedFigures,
): ScenarioRecord => ({
  name: `connect-time-${name}-${services}`,
  group: `Connect time, ${services.toLocaleString('en-US')} Services`,
  title: `${title}, ${services.toLocaleString('en-US')} Services of ${endpoints} endpoints`,
  about,
  metrics,
  notes: [],
  goals: services === 20_000 && endpoints === 2 ? limits.map(goalOf) : [],
  outcomes: samples(figures).map((found, round) => ({
    target: ledName,
    round,
    sample: { figures: found, errors: {} },
  })),
  leftOut:
    figures.reason === '' || name !== 'first'
      ? []
      : [{ name: ledName, why: figures.reason }],
})

const goalOf = ([metric, atMost]: readonly [string, number]): Goal => ({
  target: ledName,
  metric,
  atMost,
})
