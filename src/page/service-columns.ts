import type { Column } from './column.ts'
import { bytesForPeople, perSecond } from './format.ts'
import {
  endpointsText,
  type Rates,
  routeName,
  serviceStates,
  severityStyle,
} from './service-words.ts'
import type { Row } from './store.ts'

/** Of the table of Services; `now` is `Tick.at` of the last look. */
export interface ServiceColumn extends Column<Row> {
  readonly id: string
  /** Said on hover. */
  readonly help?: string
  /** The first click sorts so. */
  readonly first: 'ascending' | 'descending'
  /** What it is sorted by. */
  readonly key: (row: Row, now: number) => number | string
}

const figureColumn = (
  id: string,
  name: string,
  help: string,
  key: (row: Row) => number,
  text: (figure: number) => string = perSecond,
): ServiceColumn => ({
  id,
  name,
  help,
  isNumber: true,
  first: 'descending',
  // Of what is not there the eye is spared the zeros.
  read: row => (key(row) === 0 ? '·' : text(key(row))),
  key,
})

const bytesColumn = (
  id: string,
  name: string,
  help: string,
  field: keyof Rates,
): ServiceColumn =>
  figureColumn(
    id,
    name,
    help,
    row => row.rates[field],
    rate => bytesForPeople(Math.round(rate)),
  )

/** See `serviceStates`. */
export const troubleOf = ({ state }: Row): number => serviceStates[state]

export const columns: readonly ServiceColumn[] = [
  {
    id: 'name',
    name: 'Service',
    isName: true,
    first: 'ascending',
    read: ({ servicePort }) => routeName(servicePort),
    more: ({ protocol, family }) =>
      [protocol === 'TCP' ? '' : protocol, family === 'IPv6' ? 'IPv6' : '']
        .filter(Boolean)
        .join(' '),
    key: ({ servicePort }) => servicePort,
  },
  {
    id: 'vips',
    name: 'VIPs',
    first: 'ascending',
    read: ({ addresses }) => addresses,
    key: ({ addresses }) => addresses,
  },
  {
    id: 'state',
    name: 'State',
    first: 'descending',
    read: ({ state }) => state,
    style: row => severityStyle(troubleOf(row)),
    key: troubleOf,
  },
  {
    id: 'endpoints',
    name: 'Endpoints',
    help: 'up and in use, of all, and why others are not; one that cools down after a failure is in use',
    first: 'ascending',
    read: endpointsText,
    more: ({ reason }) => reason,
    key: ({ endpointCounts: { usable, all } }) => (all === 0 ? 0 : usable / all),
  },
  figureColumn(
    'active',
    'Open',
    'connections and flows that are open',
    row => row.active,
    String,
  ),
  figureColumn(
    'new',
    'New/s',
    'new connections a second; of UDP, new flows',
    row => row.rates.accepted,
  ),
  {
    ...figureColumn(
      'failed',
      'Failed/s',
      'connections that ended in a failure, those ended by their clients apart',
      row => row.rates.failed,
    ),
    style: ({ rates }) => (rates.failed > 0 ? 'red' : undefined),
  },
  figureColumn(
    'retries',
    'Retries/s',
    'endpoints dialled because another did not answer or refused',
    row => row.rates.retries,
  ),
  bytesColumn('in', 'In/s', 'bytes a second, from clients to backends', 'bytesToBackend'),
  bytesColumn(
    'out',
    'Out/s',
    'bytes a second, from backends to clients',
    'bytesToClient',
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
    const [one, other] = [a.row.servicePort, b.row.servicePort]
    return one < other ? -1 : one > other ? 1 : 0
  })
  return keyed.map(({ row }) => row)
}
