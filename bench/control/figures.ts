/** Everything that was measured. Times are milliseconds. */
export interface Figures {
  readonly start: Phase & {
    /** From the start of the process until it served everything. */
    readonly servingMs: number
    /** The longest block before /livez answered: Node loads the code, nothing is served yet. */
    readonly loadingBlockMs: number
    /** Resident memory of both processes when nothing had changed for a while. */
    readonly settledRssBytes: number
  }
  readonly churn: Phase & {
    readonly changes: number
    /** From each change to the end of the sync that brought it into effect. */
    readonly appliedMs: readonly number[]
    readonly syncs: number
    /** From a change to the first connection that went to the new endpoint. */
    readonly probedMs: readonly number[]
    readonly cpuShare: number
    readonly rssBytes: number
  }
  readonly requests: number
  readonly peakRequestsPerSecond: number
  readonly complaints: readonly string[]
}

export interface Phase {
  readonly cpuSeconds: number
  readonly peakRssBytes: number
  /** The longest time for which the event loop stood still. */
  readonly longestBlockMs: number
  readonly livezMs: readonly number[]
  /** Cores that programs outside the bench kept busy. */
  readonly othersCores: number
}

/** The value below which a share of all lie; undefined when there are none. */
export const quantile = (
  values: readonly number[],
  share: number,
): number | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}
