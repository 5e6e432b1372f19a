import { badValue, value, type Value } from './value.ts'

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
export const bytes = (lowest: string, highest: string): Value<number> =>
  value('BYTES', text => {
    const number = parseBytes(text)
    if (number === undefined)
      throw badValue(text, 'is not a number of bytes', 'give one like 64KiB or 65536')
    if (number < Number(parseBytes(lowest)) || number > Number(parseBytes(highest)))
      throw badValue(text, 'is out of range', `give ${lowest} to ${highest}`)
    return number
  })
