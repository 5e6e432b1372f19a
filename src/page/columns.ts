import { bytesForPeople, perSecond } from './format.ts'
import type { Row } from './store.ts'

/** What a cell says. */
export interface Cell {
  readonly text: string
  /** After it, in a quieter voice. */
  readonly more?: string
  readonly isTrouble?: boolean
}

export interface Column {
  readonly id: string
  readonly title: string
  /** Said on hover. */
  readonly help?: string
  /** Made of counts, and left out where there are none. */
  readonly isNumber?: true
  /** The first click sorts so. */
  readonly first: 'ascending' | 'descending'
  readonly cell: (row: Row, now: number) => Cell
  /** What it is sorted by; `now` is `Tick.at`. */
  readonly key: (row: Row, now: number) => number | string
}

const rateColumn = (
  id: string,
  title: string,
  help: string,
  rate: (row: Row) => number,
  text: (rate: number) => string = perSecond,
): Column => ({
  id,
  title,
  help,
  isNumber: true,
  first: 'descending',
  cell: row => ({ text: quietZero(rate(row), text) }),
  key: rate,
})

/** Of what is not there the eye is spared the zeros. */
const quietZero = (number: number, text: (number: number) => string): string =>
  number === 0 ? '·' : text(number)

export const columns: readonly Column[] = [
  {
    id: 'name',
    title: 'Service',
    first: 'ascending',
    cell: ({ name, protocol, family }) => ({
      text: name.replace(/^route\//, ''),
      more: [protocol === 'TCP' ? '' : protocol, family === 'IPv6' ? 'IPv6' : '']
        .filter(Boolean)
        .join(' '),
    }),
    key: ({ name }) => name,
  },
  {
    id: 'vips',
    title: 'VIPs',
    first: 'ascending',
    cell: ({ vips }) => ({ text: vips }),
    key: ({ vips }) => vips,
  },
  {
    id: 'state',
    title: 'State',
    first: 'descending',
    cell: (row, now) => ({
      text: stateText(row, now),
      isTrouble: troubleOf(row, now) >= 2,
    }),
    key: (row, now) => troubleOf(row, now),
  },
  {
    id: 'endpoints',
    title: 'Endpoints',
    help: 'in use, of all, and why others are not; one that rests for a while after a failure is in use',
    first: 'ascending',
    cell: ({ usable, all, missing, why }) => ({
      text: `${usable}/${all}`,
      more: why,
      isTrouble: missing > 0,
    }),
    key: ({ usable, all }) => (all === 0 ? 0 : usable / all),
  },
  {
    ...rateColumn(
      'active',
      'Open',
      'connections and flows that are open',
      row => row.active,
    ),
    cell: ({ active }) => ({ text: quietZero(active, String) }),
  },
  rateColumn(
    'new',
    'New/s',
    'new connections a second; of UDP, new flows',
    row => row.rates.accepted,
  ),
  {
    ...rateColumn(
      'failed',
      'Failed/s',
      'connections that ended in a failure, those ended by their clients apart',
      row => row.rates.failed,
    ),
    cell: ({ rates }) => ({
      text: quietZero(rates.failed, perSecond),
      isTrouble: rates.failed > 0,
    }),
  },
  rateColumn(
    'retries',
    'Retries/s',
    'endpoints dialled because another did not answer or refused',
    row => row.rates.retries,
  ),
  rateColumn(
    'in',
    'In/s',
    'bytes a second, from clients to backends',
    row => row.rates.toBackend,
    rate => bytesForPeople(Math.round(rate)),
  ),
  rateColumn(
    'out',
    'Out/s',
    'bytes a second, from backends to clients',
    row => row.rates.toClient,
    rate => bytesForPeople(Math.round(rate)),
  ),
]

export interface Sorting {
  readonly by: string
  readonly direction: 'ascending' | 'descending'
}

/** Trouble first, then by name, until something else is asked for. */
export const usualSorting: Sorting = { by: 'state', direction: 'descending' }

/** Sorted, those that are the same by name. */
export const sorted = (
  rows: readonly Row[],
  { by, direction }: Sorting,
  now: number,
): readonly Row[] => {
  const column = columns.find(({ id }) => id === by)
  if (column === undefined) return rows
  const sign = direction === 'ascending' ? 1 : -1
  const keyed = rows.map(row => ({ row, key: column.key(row, now) }))
  keyed.sort((a, b) => {
    if (a.key !== b.key) return a.key < b.key ? -sign : sign
    return a.row.name < b.row.name ? -1 : a.row.name > b.row.name ? 1 : 0
  })
  return keyed.map(({ row }) => row)
}

/** Milliseconds for which a failure colours its row. */
const shownMs = 10_000

/** What should be looked at first: 3 clients suffer, 2 would, 1 worth knowing, 0 all is well. */
type Trouble = 0 | 1 | 2 | 3

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
const stateText = (row: Row, now: number): string =>
  row.state === 'ok' && isFailing(row, now) ? 'failing' : row.state
