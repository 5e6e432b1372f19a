export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow'

/** A column of a table of `T`, in a terminal or on the page. `now`: milliseconds, by the clock that times of a row are of. */
export interface Column<T> {
  readonly name: string
  readonly read: (row: T, now: number) => string
  /** After it, in a quieter voice; on the page alone. */
  readonly more?: (row: T, now: number) => string
  /** It stands at the right of its column. */
  readonly isNumber?: true
  readonly style?: (row: T, now: number) => Style | undefined
}
