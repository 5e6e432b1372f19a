import type { Metric } from '../record/record.ts'

/** One of which less is better. */
export const lower = (
  name: string,
  title: string,
  unit: string,
  decimals: number,
): Metric => ({ name, title, unit, better: 'lower', decimals })

/** How long something that was done many times took. */
export const percentiles: readonly Metric[] = [
  lower('p99', '99 of 100', 'ms', 1),
  lower('p50', 'Median', 'ms', 1),
  lower('max', 'Longest', 'ms', 1),
]
