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
