export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow'

/** A column of a table of `T`, in a terminal or on the page. `now`: milliseconds, by the clock that times of a row are of. */
export interface Column<T> {
  readonly name: string
  readonly read: (row: T, now: number) => string
  /** After it, in a quieter voice; on the page alone. */
  readonly more?: (row: T, now: number) => string
  /** Where there is no room it is cut in the middle; on the page alone. */
  readonly isName?: true
  /** It stands at the right of its column. */
  readonly isNumber?: true
  readonly style?: (row: T, now: number) => Style | undefined
}
