import type { Comparison } from './compare.ts'
import type { Metric } from './record.ts'
import type { Spread } from './statistics.ts'

/** Stands where there is no figure. */
export const none = '-'

/**
 * A figure without its unit: `12,345`, `0.93`. What would be rounded to zero and isn't is
 * `<0.01`.
 */
export const formatFigure = (
  value: number | undefined,
  { decimals }: Pick<Metric, 'decimals'>,
): string => {
  if (value === undefined || !Number.isFinite(value)) return none
  const least = 10 ** -decimals
  if (value > 0 && value < least / 2) return `<${fixed(least, decimals)}`
  // Without the sign of what rounds to -0.
  return fixed(Math.abs(value) < least / 2 ? 0 : value, decimals)
}

/** `900..1,900`. */
export const spreadText = (
  spread: Spread | undefined,
  metric: Pick<Metric, 'decimals'>,
): string =>
  spread === undefined
    ? none
    : `${formatFigure(spread.min, metric)}..${formatFigure(spread.max, metric)}`

/**
 * `0.93`, `1.24`, `-` for nothing to compare; `even` when one lies within the spread, so
 * that rounds disagree on which was ahead. `0.93?` are rounds that agree, but are too few or
 * too far apart for that to be more than chance.
 */
export const ratioText = (comparison: Comparison | undefined): string => {
  if (comparison === undefined) return none
  const { median, min, max, rounds, verdict } = comparison
  if (rounds > 1 && min <= 1 && max >= 1) return 'even'
  if (verdict === 'even') return `${numberText(median)}?`
  const text = numberText(median)
  // It isn't even, so that is not what its figure shall say.
  return text === '1.00' ? median.toFixed(3) : text
}

/** `0.93 (0.90..0.97)`, `even (0.97..1.04)`, `0.80? (0.61..0.99)`, `0.93?`, `-`. */
export const ratioWithSpread = (comparison: Comparison | undefined): string => {
  const text = ratioText(comparison)
  if (comparison === undefined || comparison.rounds < 2) return text
  return `${text} (${numberText(comparison.min)}..${numberText(comparison.max)})`
}

/** `0.45`. */
export const coreText = (cores: number | undefined): string =>
  formatFigure(cores, { decimals: 2 })

/** Two digits that say something at any size: `0.012`, `0.93`, `24.5`, `1,234`. */
const numberText = (ratio: number): string => {
  const size = Math.abs(ratio)
  if (size >= 99.95) return fixed(ratio, 0)
  if (size >= 9.995) return fixed(ratio, 1)
  if (size >= 0.0995 || size === 0) return ratio.toFixed(2)
  if (size >= 0.000_95) return ratio.toFixed(size >= 0.00995 ? 3 : 4)
  return ratio > 0 ? '<0.001' : '0.00'
}

const fixed = (value: number, decimals: number): string =>
  value.toLocaleString('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })
