import { formatTable } from '../table.ts'
import { type Figures, type Phase, quantile } from './figures.ts'

const none = '-'

/** Cores that programs outside the bench may use before a figure is in doubt. */
const quiet = 0.1

/** The figures as lines of text, with the goals and whether they were reached. */
export const reportControl = (figures: Figures): string[] => {
  const { start, churn } = figures
  const p99 = quantile(churn.appliedMs, 0.99)
  return [
    'start: from nothing to everything served',
    ...table([
      ['', 'value', 'goal'],
      [
        'start to serving',
        seconds(start.servingMs),
        goal(start.servingMs, 10_000, '10 s'),
      ],
      [
        'peak RSS',
        megabytes(start.peakRssBytes),
        goal(start.peakRssBytes, 400e6, '400 MB'),
      ],
      ['longest block, loading the code', ms(start.loadingBlockMs), ''],
      [
        'longest block, afterwards',
        ms(start.longestBlockMs),
        goal(start.longestBlockMs, 50, '50 ms'),
      ],
      ['CPU time', `${start.cpuSeconds.toFixed(1)} s`, ''],
      ['/livez p50 / p99 / max', spread(start.livezMs), ''],
    ]),
    '',
    `changes: ${churn.changes} of them, taken in by ${churn.syncs} syncs`,
    ...table([
      ['', 'value', 'goal'],
      [
        'change to sync done p50 / p99 / max',
        spread(churn.appliedMs),
        goal(p99, 50, 'p99 50 ms'),
      ],
      [
        `change to connection p50 / p99 / max (${churn.probedMs.length})`,
        spread(churn.probedMs),
        '',
      ],
      ['seen / made', `${churn.appliedMs.length} / ${churn.changes}`, ''],
      ['cores used', churn.cpuShare.toFixed(2), ''],
      ['RSS at the end', megabytes(churn.rssBytes), ''],
      ['peak RSS since the start', megabytes(churn.peakRssBytes), ''],
      [
        'longest block',
        ms(churn.longestBlockMs),
        goal(churn.longestBlockMs, 50, '50 ms'),
      ],
      ['/livez p50 / p99 / max', spread(churn.livezMs), ''],
    ]),
    '',
    ...[start, churn].filter(({ othersCores }) => othersCores > quiet).map(doubt),
    `API requests: ${figures.requests}, at most ${figures.peakRequestsPerSecond} within a second`,
    ...figures.complaints.slice(0, 10).map(text => `MIND usher said: ${text}`),
  ]
}

const doubt = ({ othersCores }: Phase): string =>
  `IN DOUBT: other programs used ${othersCores.toFixed(2)} cores`

const table = (rows: readonly (readonly string[])[]): string[] =>
  formatTable(rows).map(row => `  ${row}`)

const goal = (value: number | undefined, atMost: number, text: string): string => {
  if (value === undefined) return `${text}: not measured`
  return `${text}: ${value <= atMost ? 'reached' : 'MISSED'}`
}

const seconds = (value: number): string => `${(value / 1000).toFixed(2)} s`

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`

const ms = (value: number | undefined): string =>
  value === undefined ? none : `${value.toFixed(1)} ms`

const spread = (values: readonly number[]): string =>
  [0.5, 0.99, 1].map(share => ms(quantile(values, share))).join(' / ')
