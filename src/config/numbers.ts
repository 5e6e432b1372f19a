import { badValue, integer, value, type Value } from './value.ts'

const highestInt32 = 2_147_483_647

/** A whole number of kube-proxy's flags; they are 32 bits wide. */
export const int32 = (lowest: number, highest = highestInt32): Value<number> =>
  integer(lowest, highest)

/** A decimal number, as Go reads one: `5`, `2.5`, `1e3`. */
export const number: Value<number> = value('NUMBER', text => {
  const parsed = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?$/i.test(text)
    ? Number(text)
    : Number.NaN
  if (!Number.isFinite(parsed))
    throw badValue(text, 'is not a number', 'give one like 5 or 2.5')
  return parsed
})
