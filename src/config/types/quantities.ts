import { parseBytes } from '../../util/bytes.ts'
import { goDuration, parseDuration } from '../../util/duration.ts'
import { badValue, plain, textual, type OptionType } from './basic.ts'

/** A whole decimal number from `lowest` to `highest`. */
export const integer = (lowest: number, highest: number): OptionType<number, number> =>
  plain('NUMBER', given => {
    const parsed = /^-?\d{1,15}$/.test(given) ? Number(given) : Number.NaN
    if (!(parsed >= lowest && parsed <= highest))
      throw badValue(
        given,
        `is not a whole number from ${lowest} to ${highest}`,
        `give one without a unit, like ${Math.max(lowest, Math.min(highest, 1024))}`,
      )
    return parsed
  })

/** A whole number of kube-proxy's flags; they are 32 bits wide. */
export const int32 = (
  lowest: number,
  highest = 2_147_483_647,
): OptionType<number, number> => integer(lowest, highest)

/** A decimal number, as Go reads one: `5`, `2.5`, `1e3`. */
export const number = plain('NUMBER', text => {
  const parsed = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?$/i.test(text)
    ? Number(text)
    : Number.NaN
  if (!Number.isFinite(parsed))
    throw badValue(text, 'is not a number', 'give one like 5 or 2.5')
  return parsed
})

/** A number of bytes from `lowest` to `highest`, both in the syntax of parseBytes. */
export const bytes = (lowest: string, highest: string): OptionType<number, string> =>
  textual('BYTES', text => {
    const parsed = parseBytes(text)
    if (parsed === undefined)
      throw badValue(text, 'is not a number of bytes', 'give one like 64KiB or 65536')
    if (parsed < Number(parseBytes(lowest)) || parsed > Number(parseBytes(highest)))
      throw badValue(text, 'is out of range', `give ${lowest} to ${highest}`)
    return parsed
  })

/** 576 h. A longer timer makes setTimeout fire at once (its delay is 32 bits signed). */
const longest = 576 * 3_600_000

const parse = (text: string, lowest: number, example: string): number => {
  const ms = parseDuration(text)
  if (ms === undefined)
    throw badValue(
      text,
      'is not a duration',
      `give a number with a unit, like ${example} or 1m30s`,
    )
  // Between 0 and 1 ms would round to 0, which means "never" to some of the flags.
  if (ms < lowest || (ms > 0 && ms < 1))
    throw badValue(
      text,
      'is too short',
      `give ${lowest === 0 ? '0, or ' : ''}1ms or more`,
    )
  if (ms > longest) throw badValue(text, 'is too long', 'give 576h (24 days) or less')
  return Math.round(ms)
}

/** A duration in whole milliseconds; 0 is taken only where `zero` says so. */
export const duration = (zero: 'or zero' | 'above zero'): OptionType<number, string> =>
  textual('DURATION', text => parse(text, zero === 'or zero' ? 0 : 1, '30s'))

/** 1 to 16 durations above zero with commas between them, in milliseconds. */
export const durations: OptionType<readonly number[], string> = textual(
  'DURATION,...',
  text => {
    const steps = text.split(',')
    if (steps.length > 16)
      throw badValue(text, `has ${steps.length} steps`, 'give 16 steps or fewer')
    return steps.map(step => parse(step.trim(), 1, '250ms'))
  },
)

/** Any duration Go reads, kept as Go writes it; for what Usher passes on without use. */
export const goSpan: OptionType<string, string> = textual('DURATION', text => {
  const written = goDuration(text)
  if (written === undefined)
    throw badValue(
      text,
      'is not a duration',
      'give a number with a unit, like 30s or 1m30s',
    )
  return written
})

/** The most that the kernel takes for TCP_KEEPIDLE and TCP_KEEPINTVL (MAX_TCP_KEEPIDLE). */
const mostSeconds = 32_767

/** A duration of whole seconds up to 9h, in milliseconds: TCP's keep-alive has no finer ones. */
export const seconds = (zero: 'or zero' | 'above zero'): OptionType<number, string> => {
  const { metavar, ...any } = duration(zero)
  return textual(metavar, text => {
    const ms = any.read(text)
    if (ms % 1000 !== 0)
      throw badValue(text, 'is not a number of whole seconds', 'give one like 15s or 1m')
    if (ms > mostSeconds * 1000) throw badValue(text, 'is too long', 'give 9h or less')
    return ms
  })
}
