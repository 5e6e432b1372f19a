import type { Metric, ScenarioRecord } from '../../record/record.ts'

/** Metrics that are percentiles of the same times. */
export interface Percentiles {
  /** What the times are of, '' when it goes without saying. */
  readonly of: string
  /** From the lowest percentile to the highest, at least two. */
  readonly metrics: readonly Metric[]
}

const named = /^(?:(.*) )?p(\d{2,4})$/

/** Metrics named `p50`, `p99`, `connect p999`, ... that belong together. */
export const percentilesOf = ({
  metrics,
}: Pick<ScenarioRecord, 'metrics'>): readonly Percentiles[] => {
  const families = new Map<string, { readonly metric: Metric; readonly rank: number }[]>()
  for (const metric of metrics) {
    const [, of = '', digits] = named.exec(metric.name) ?? []
    if (digits === undefined) continue
    const family = families.get(of) ?? []
    families.set(of, [...family, { metric, rank: Number(`0.${digits}`) }])
  }
  return [...families]
    .filter(([, family]) => family.length > 1)
    .map(([of, family]) => ({
      of,
      metrics: family.toSorted((a, b) => a.rank - b.rank).map(({ metric }) => metric),
    }))
}

/** `p99.9` for `connect p999`. */
export const percentileText = (metric: Pick<Metric, 'name'>): string => {
  const digits = named.exec(metric.name)?.[2] ?? ''
  return `p${digits.slice(0, 2)}${digits.length > 2 ? `.${digits.slice(2)}` : ''}`
}
