import type { Alert } from './alerts.ts'
import { unserved } from './causes.ts'

/** The share of connections that may find no endpoint: 99.9 % are to reach one. */
const budget = 0.001

const windows = ['5m', '30m', '1h', '6h'] as const
type Window = (typeof windows)[number]

const recorded = (window: Window): string =>
  `usher:connections_unserved:ratio_rate${window}`

/** The share over each window. */
export const recordings = windows.map(window => ({
  record: recorded(window),
  expr: `sum(rate(usher_connections_failed_total{cause=~"${unserved}"}[${window}]))
  / sum(rate(usher_connections_accepted_total[${window}]))`,
}))

/** The long window says that it matters, the short one that it goes on. */
const burn = (factor: number, long: Window, short: Window): string => {
  const most = Number((factor * budget).toPrecision(6))
  return `${recorded(long)} > ${most} and ${recorded(short)} > ${most}`
}

export const burnAlerts: readonly Alert[] = [
  {
    name: 'UsherErrorBudgetBurnsFast',
    severity: 'critical',
    for: '2m',
    expr: burn(14.4, '1h', '5m'),
    summary: 'Many connections reach no endpoint.',
    description:
      '{{ $value | humanizePercentage }} of all connections of the last hour reached no endpoint: 2 % of the error budget of 30 days in an hour.',
  },
  {
    name: 'UsherErrorBudgetBurns',
    severity: 'warning',
    for: '15m',
    expr: burn(6, '6h', '30m'),
    summary: 'More connections than should reach no endpoint.',
    description:
      '{{ $value | humanizePercentage }} of all connections of the last 6 hours reached no endpoint: 5 % of the error budget of 30 days in 6 hours.',
  },
]
