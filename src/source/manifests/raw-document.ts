/** One document of a file: its value, or why it could not be parsed. */
export interface RawDocument {
  /** From 1, counting empty ones too, as one counts the `---` lines. */
  readonly number: number
  readonly value: unknown
  /** `line 3: ...`; '' when it was parsed. */
  readonly error: string
}
