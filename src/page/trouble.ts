import type { Row } from './store.ts'

/** Milliseconds for which a failure colours its row. */
const shownMs = 10_000

/** What should be looked at first: 3 clients suffer, 2 would, 1 worth knowing, 0 all is well. */
export type Trouble = 0 | 1 | 2 | 3

const byState: Readonly<Record<Row['state'], Trouble>> = {
  'not listening': 3,
  'none usable': 3,
  failing: 3,
  'no endpoints': 2,
  paused: 1,
  'not captured': 1,
  starting: 1,
  ok: 0,
}

/** `now`: `Tick.at` of the last look. */
const isFailing = ({ failedAt }: Row, now: number): boolean =>
  failedAt !== undefined && now - failedAt < shownMs

export const troubleOf = (row: Row, now: number): Trouble => {
  if (isFailing(row, now)) return 3
  return byState[row.state] || (row.missing > 0 ? 1 : 0)
}

/** The state in a word or two. */
export const stateText = (row: Row, now: number): string =>
  row.state === 'ok' && isFailing(row, now) ? 'failing' : row.state
