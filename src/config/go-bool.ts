const yes: ReadonlySet<string> = new Set(['1', 't', 'T', 'TRUE', 'true', 'True'])
const no: ReadonlySet<string> = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False'])

/** A truth value in the spellings that Go's strconv.ParseBool takes; else undefined. */
export const parseBool = (text: string): boolean | undefined =>
  yes.has(text) ? true : no.has(text) ? false : undefined
