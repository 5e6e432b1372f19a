import { createHistogram } from 'node:perf_hooks'
import type { Percentiles } from './question.ts'

const nsPerMs = 1e6

/** Durations, kept in so much memory however many there are, to a thousandth of each. */
export class Timings {
  readonly #histogram = createHistogram({ lowest: 1, highest: 3.6e12, figures: 3 })

  /** @param ms - at most an hour; below a nanosecond counts as one. */
  record(ms: number): void {
    this.#histogram.record(Math.max(1, Math.round(ms * nsPerMs)))
  }

  clear(): void {
    this.#histogram.reset()
  }

  /** In milliseconds; undefined when there are none. */
  percentiles(): Percentiles | undefined {
    const histogram = this.#histogram
    if (histogram.count === 0) return undefined
    const at = (percent: number): number => histogram.percentile(percent) / nsPerMs
    return {
      p50: at(50),
      p90: at(90),
      p99: at(99),
      p999: at(99.9),
      max: histogram.max / nsPerMs,
      count: histogram.count,
    }
  }
}

/** Leaves out what there is none of, as optional properties want it. */
export const present = <T extends object>(
  values: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } => {
  const kept = Object.entries(values).filter(([, value]) => value !== undefined)
  return Object.fromEntries(kept) as { [K in keyof T]?: Exclude<T[K], undefined> }
}
