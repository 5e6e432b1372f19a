/** The middle of a set of figures, and how far apart they lay. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** Undefined when there are no figures. */
export const spreadOf = (values: readonly number[]): Spread | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  const low = sorted[Math.floor((sorted.length - 1) / 2)]
  const high = sorted[Math.ceil((sorted.length - 1) / 2)]
  const [min] = sorted
  const max = sorted.at(-1)
  if (low === undefined || high === undefined || min === undefined || max === undefined)
    return undefined
  return { median: (low + high) / 2, min, max }
}

/**
 * `values` over `base`, round by round: what slowed the whole machine for a while slowed
 * both, so a ratio within one round is steadier than a ratio of medians. Rounds in which
 * either is missing, or the base is not positive, are left out.
 */
export const ratiosByRound = (
  values: readonly (number | undefined)[],
  base: readonly (number | undefined)[],
): number[] => {
  const ratios: number[] = []
  for (const [round, value] of values.entries()) {
    const over = base[round]
    if (value !== undefined && over !== undefined && over > 0) ratios.push(value / over)
  }
  return ratios
}
