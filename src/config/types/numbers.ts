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

const factors: Readonly<Record<string, number>> = { K: 1024, M: 1024 ** 2, G: 1024 ** 3 }

/**
 * A number of bytes with a binary unit or none (`65536`, `64KiB`, `64Ki`); undefined
 * when the text is not one. `64k` and `64KB` are refused: readers differ on what they are.
 */
export const parseBytes = (text: string): number | undefined => {
  const match = /^(\d{1,12})(?:([KMG])iB?|B)?$/.exec(text)
  if (match === null) return undefined
  return Number(match[1]) * (factors[match[2] ?? ''] ?? 1)
}

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
