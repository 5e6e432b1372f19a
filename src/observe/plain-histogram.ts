import type { Sample } from './exposition.ts'

/** Adds two histograms over the same buckets, count by count. */
export const addCounts = (a: readonly number[], b: readonly number[]): number[] =>
  Array.from(
    { length: Math.max(a.length, b.length) },
    (_, i) => (a[i] ?? 0) + (b[i] ?? 0),
  )

/**
 * The lines of a histogram kept as plain counts: one per upper bound, and one more for
 * what is above all of them. Prometheus wants each bucket to hold the smaller ones too.
 */
export const histogramSamples = (
  labels: string,
  bounds: readonly number[],
  counts: readonly number[],
  sum: number,
): Sample[] => {
  const comma = labels === '' ? '' : ','
  let total = 0
  const buckets = [...bounds.map(String), '+Inf'].map((le, i) => {
    total += counts[i] ?? 0
    return { suffix: '_bucket', labels: `${labels}${comma}le="${le}"`, value: total }
  })
  return [
    ...buckets,
    { suffix: '_sum', labels, value: sum },
    { suffix: '_count', labels, value: total },
  ]
}
