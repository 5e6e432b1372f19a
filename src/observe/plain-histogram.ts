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

/** A histogram over fixed bounds, as plain counts. */
export class PlainHistogram {
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #sum = 0

  /** `bounds`: the upper bounds of the buckets, ascending. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  observe(value: number): void {
    const bucket = this.#bounds.findIndex(bound => value <= bound)
    const index = bucket === -1 ? this.#bounds.length : bucket
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  samples(labels: string): Sample[] {
    return histogramSamples(labels, this.#bounds, this.#counts, this.#sum)
  }
}
