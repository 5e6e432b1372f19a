import { duration } from './duration.ts'
import { badValue, value, type Value } from './value.ts'

/** The most that the kernel takes for TCP_KEEPIDLE and TCP_KEEPINTVL (MAX_TCP_KEEPIDLE). */
const mostSeconds = 32_767

/** A duration of whole seconds up to 9h, in milliseconds: TCP's keep-alive has no finer ones. */
export const seconds = (zero: 'or zero' | 'above zero'): Value<number> => {
  const { metavar, parse } = duration(zero)
  return value(metavar, text => {
    const ms = parse(text)
    if (ms % 1000 !== 0)
      throw badValue(text, 'is not a number of whole seconds', 'give one like 15s or 1m')
    if (ms > mostSeconds * 1000) throw badValue(text, 'is too long', 'give 9h or less')
    return ms
  })
}
