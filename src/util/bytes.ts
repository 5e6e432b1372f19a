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
