/** From a figure to a place in pixels. */
export type Scale = (value: number) => number

/** From zero to `max`, which has to be positive. Figures outside are drawn at its ends. */
export const linearScale =
  (max: number, from: number, to: number): Scale =>
  value =>
    from + (Math.min(Math.max(value, 0), max) / max) * (to - from)

/** Both ends have to be positive. Figures outside are drawn at its ends. */
export const logScale = (low: number, high: number, from: number, to: number): Scale => {
  const span = Math.log(high / low)
  return value => {
    const inside = Math.min(Math.max(value, low), high)
    return from + (Math.log(inside / low) / span) * (to - from)
  }
}

/**
 * Round figures from zero to the first that is not below `max`, at most so many steps.
 * The last is where the axis ends.
 */
export const linearTicks = (max: number, mostSteps: number): number[] => {
  if (!(max > 0)) return [0, 1]
  const power = 10 ** Math.floor(Math.log10(max / mostSteps))
  const factor =
    [1, 2, 2.5, 5, 10].find(each => each * power * mostSteps >= max * (1 - 1e-9)) ?? 10
  const step = factor * power
  const count = Math.ceil((max / step) * (1 - 1e-9))
  return Array.from({ length: count + 1 }, (_, index) => rounded(index * step))
}

/**
 * Powers of ten, and their 2 and 5 where that leaves few enough, from the last not above
 * `low` to the first not below `high`. The first and the last are the ends of the axis.
 */
export const logTicks = (low: number, high: number, most: number): number[] => {
  for (const steps of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = ticksBetween(low, high, steps)
    if (ticks.length <= most || steps.length === 1) return ticks
  }
  return []
}

const ticksBetween = (low: number, high: number, steps: readonly number[]): number[] => {
  const all: number[] = []
  const first = Math.floor(Math.log10(low))
  const last = Math.ceil(Math.log10(high)) + 1
  for (let power = first; power <= last; power += 1)
    for (const step of steps) all.push(rounded(step * 10 ** power))
  const from = all.findLastIndex(tick => tick <= low)
  const to = all.findIndex((tick, index) => tick >= high && index > from)
  return all.slice(from, to + 1)
}

/** Without the tail that sums of binary fractions have. */
const rounded = (value: number): number => Number(value.toPrecision(12))

/** The figures of an axis, short, and all in the same thousands: `0`, `2.5k`, `10k`. */
export const tickTexts = (ticks: readonly number[]): string[] => {
  const most = Math.max(0, ...ticks)
  const [unit, letter] = prefixes.find(([, , from]) => most >= from) ?? [1, '', 0]
  return ticks.map(tick => (tick === 0 ? '0' : `${rounded(tick / unit)}${letter}`))
}

/** From which figure on each is used: four digits can be read without. */
const prefixes = [
  [1e9, 'G', 1e10],
  [1e6, 'M', 1e7],
  [1e3, 'k', 1e4],
] as const
