import { goDuration, parseDuration } from '../../util/duration.ts'
import { badValue, textual, type OptionType } from './basic.ts'

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
