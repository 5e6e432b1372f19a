const nanoseconds: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1000n,
  µs: 1000n, // U+00B5, the micro sign
  μs: 1000n, // U+03BC, the Greek letter; Go takes both
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
}

const whole = /^([-+]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|\u03bcs|ms|s|m|h))+)$/
const part = /(\d*)(?:\.(\d*))?(ns|us|µs|\u03bcs|ms|s|m|h)/g

/** The longest that Go has, 292 years. */
const longest = 2n ** 63n - 1n

/** Nanoseconds. */
const parse = (text: string): bigint | undefined => {
  if (/^[-+]?0$/.test(text)) return 0n
  const match = text.length > 100 ? null : whole.exec(text)
  if (match === null) return undefined
  let sum = 0n
  for (const [, number = '', fraction = '', unit = ''] of (match[2] ?? '').matchAll(
    part,
  )) {
    const size = nanoseconds[unit] ?? 0n
    sum += BigInt(number === '' ? 0 : number) * size
    if (fraction !== '') sum += (BigInt(fraction) * size) / 10n ** BigInt(fraction.length)
  }
  return match[1] === '-' ? -sum : sum
}

/** `1.5`, `250`: `value` in units of `size`, without zeros at the end. */
const decimal = (value: bigint, size: bigint): string => {
  const rest = (value % size).toString().padStart(size.toString().length - 1, '0')
  const fraction = size === 1n ? '' : rest.replace(/0+$/, '')
  return `${value / size}${fraction === '' ? '' : `.${fraction}`}`
}

const format = (duration: bigint): string => {
  if (duration === 0n) return '0s'
  if (duration < 0n) return `-${format(-duration)}`
  if (duration < 1000n) return `${duration}ns`
  if (duration < 1_000_000n) return `${decimal(duration, 1000n)}µs`
  if (duration < 1_000_000_000n) return `${decimal(duration, 1_000_000n)}ms`
  const minutes = duration / 60_000_000_000n
  const seconds = `${decimal(duration % 60_000_000_000n, 1_000_000_000n)}s`
  if (minutes === 0n) return seconds
  const hours = minutes / 60n
  return hours === 0n ? `${minutes}m${seconds}` : `${hours}h${minutes % 60n}m${seconds}`
}

const parseGo = (text: string): bigint | undefined => {
  const duration = parse(text)
  if (duration === undefined || duration > longest || duration < -longest)
    return undefined
  return duration
}

/** A duration as Go writes it, `1h0m0s` for `60m`; undefined when the text is not one. */
export const goDuration = (text: string): string | undefined => {
  const duration = parseGo(text)
  return duration === undefined ? undefined : format(duration)
}

/** The same for a number of nanoseconds, which are whole. */
export const goNanoseconds = (number: number): string => format(BigInt(number))

/** The milliseconds of a duration in Go's syntax, below zero too; NaN when it is none. */
export const goMilliseconds = (text: string): number => {
  const duration = parseGo(text)
  return duration === undefined ? Number.NaN : Number(duration) / 1e6
}

/**
 * The milliseconds of a duration in Go's syntax (`1h30m`, `250ms`, `1.5s`, a bare `0`)
 * without a sign, of any length; undefined when the text is not one.
 */
export const parseDuration = (text: string): number | undefined => {
  const duration = /^[-+]/.test(text) ? undefined : parse(text)
  return duration === undefined ? undefined : Number(duration) / 1e6
}
