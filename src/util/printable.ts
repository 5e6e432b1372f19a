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

const mostListed = 5
const longestListed = 1000

/** Texts on one line, for a message that a person reads: the first few, and how many there are besides. */
export const firstFew = (texts: readonly string[], between = '; '): string => {
  const listed = texts
    .slice(0, mostListed)
    .map(text =>
      text.length > longestListed ? `${text.slice(0, longestListed)}...` : text,
    )
  const more = texts.length - listed.length
  return [...listed, ...(more > 0 ? [`and ${more} more`] : [])].join(between)
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

/** A property of something that may not even be an object. */
export const peek = (raw: unknown, key: string): unknown =>
  isRecord(raw) && Object.hasOwn(raw, key) ? raw[key] : undefined

const isRecord = (raw: unknown): raw is Record<string, unknown> =>
  typeof raw === 'object' && raw !== null

/** Undefined when it is not JSON: the parser's own message quotes the text. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
