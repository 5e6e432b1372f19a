const longest = 80

/**
 * Text from outside, fit for one line of a log or a terminal: control characters,
 * line ends, bidirectional overrides (CVE-2021-42574) and all else beyond printable
 * ASCII are written as `\u....`, and what is too long is cut.
 */
export const printable = (text: string, limit = longest): string => {
  const cut = text.length > limit ? `${text.slice(0, limit)}...` : text
  return cut.replaceAll(
    /[^\x20-\x7e]/g,
    char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Any value as its writer would know it again: strings in quotes, no more than a kind for collections. */
export const show = (value: unknown): string => {
  if (typeof value === 'string') return `"${printable(value)}"`
  if (Array.isArray(value)) return 'a list'
  if (value instanceof Date) return 'a date'
  if (value === undefined) return 'nothing'
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  return value === null ? 'null' : 'an object'
}
