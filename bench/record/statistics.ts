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

/** Two-sided 95 % points of Student's t, by degrees of freedom from 1; 1.96 without end. */
const studentsT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262] as const
const studentsTOfMore = 2.228

/**
 * Whether ratios that scatter like these have a middle other than 1, with an error of 5 %
 * when they have not: Student's t of their logarithms, in which a half and twice as much
 * are as far from one. Two zeros or more are nothing against something, which needs no
 * test; a single ratio tells nothing.
 */
export const differFromOne = (ratios: readonly number[]): boolean => {
  const count = ratios.length
  if (count < 2) return false
  if (ratios.filter(ratio => ratio === 0).length * 2 > count) return true
  const least = Math.min(...ratios.filter(ratio => ratio > 0))
  const logs = ratios.map(ratio => Math.log(Math.max(ratio, least)))
  const mean = sumOf(logs) / count
  const variance = sumOf(logs.map(log => (log - mean) ** 2)) / (count - 1)
  const t = studentsT[count - 2] ?? studentsTOfMore
  return Math.abs(mean) > t * Math.sqrt(variance / count)
}

const sumOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0)
