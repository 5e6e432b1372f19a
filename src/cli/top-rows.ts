import type { OptionsOf } from '../config/options.ts'
import type { PortEndpoints, StatusOf, TopPort } from '../observe/status.ts'
import type { Column } from '../page/column.ts'
import { perSecond } from '../page/format.ts'
import {
  countsOf,
  endpointsText,
  type Figure,
  figureText,
  headlineOf,
  identity,
  type Rates,
  ratesOf,
  routeName,
} from '../page/service-words.ts'
import { type Cells, headOf, rowOf } from './text-table.ts'
import {
  endpointColumns,
  type OwnedEndpoint,
  ownedEndpoints,
  stateColumn,
} from './listings.ts'
import { bytesForPeople, count } from './io.ts'
import { overallOf } from './status.ts'

// What `usher top` shows: pure, from two looks at the status.

export type Sorting = OptionsOf<'top'>['sort']

/** With its endpoints where those are shown. */
type SnapshotPort = TopPort & Partial<Pick<PortEndpoints, 'endpoints'>>

/** Two snapshots, and how far they are apart. */
export interface Snapshots {
  readonly before: readonly SnapshotPort[]
  readonly after: readonly SnapshotPort[]
  readonly seconds: number
}

interface RatedPort extends TopPort {
  readonly name: string
  readonly rates: Rates
}

/** Ports of Services, in a table with its head. */
export const serviceRows = (
  { before, after, seconds }: Snapshots,
  sorting: Sorting,
): readonly Cells[] => {
  const was = new Map(before.map(port => [identity(port), countsOf(port)]))
  const rated = after.map(port => ({
    ...port,
    name: routeName(port.servicePort),
    rates: ratesOf(was.get(identity(port)), countsOf(port), seconds),
  }))
  return tableOf(serviceColumns, rated.toSorted(orders[sorting]))
}

const tableOf = <T>(
  columns: readonly Column<T>[],
  all: readonly T[],
): readonly Cells[] => {
  const now = Date.now()
  return [headOf(columns), ...all.map(one => rowOf(columns, one, now))]
}

const failedColumn = <T>(read: (one: T) => Figure): Column<T> => ({
  name: 'FAILED/S',
  isNumber: true,
  read: one => figureText(read(one), perSecond),
  style: one => ((read(one) ?? 0) > 0 ? 'red' : undefined),
})

/** Of what is counted. */
const rateOf = ({ active, rates }: RatedPort, field: keyof Rates): Figure =>
  active === null ? null : rates[field]

const bytesColumn = (name: string, field: keyof Rates): Column<RatedPort> => ({
  name,
  isNumber: true,
  read: one => figureText(rateOf(one, field), rate => bytesForPeople(Math.round(rate))),
})

const serviceColumns: readonly Column<RatedPort>[] = [
  { name: 'NAME', read: one => one.name },
  stateColumn,
  { name: 'ENDPOINTS', isNumber: true, read: endpointsText },
  { name: 'ACTIVE', isNumber: true, read: one => figureText(one.active) },
  {
    name: 'NEW/S',
    isNumber: true,
    read: one => figureText(rateOf(one, 'accepted'), perSecond),
  },
  failedColumn(one => rateOf(one, 'failed')),
  {
    name: 'RETRIES/S',
    isNumber: true,
    read: one => figureText(rateOf(one, 'retries'), perSecond),
  },
  bytesColumn('TO-BACKENDS/S', 'bytesToBackend'),
  bytesColumn('TO-CLIENTS/S', 'bytesToClient'),
  { name: 'PROTOCOL', read: one => one.protocol },
]

type Order = (a: RatedPort, b: RatedPort) => number

const byName: Order = (a, b) => (a.name < b.name ? -1 : 1)
const most =
  (of: (port: RatedPort) => number): Order =>
  (a, b) =>
    of(b) - of(a) || byName(a, b)

const orders: Readonly<Record<Sorting, Order>> = {
  new: most(({ rates }) => rates.accepted),
  active: most(({ active }) => active ?? 0),
  failed: most(({ rates }) => rates.failed),
  retries: most(({ rates }) => rates.retries),
  bytes: most(({ rates }) => rates.bytesToBackend + rates.bytesToClient),
  name: byName,
}

interface RatedEndpoint extends OwnedEndpoint {
  /** Failures a second. */
  readonly failed: number
}

/** Endpoints of all of them, those that fail most, then the busiest, first. */
export const endpointRows = ({ before, after, seconds }: Snapshots): readonly Cells[] => {
  const was = new Map(
    before.flatMap(endpointsOf).map(one => [endpointKey(one), one.endpoint.failures]),
  )
  const rated: RatedEndpoint[] = []
  for (const one of after.flatMap(endpointsOf)) {
    const { failures } = one.endpoint
    const more = (failures ?? 0) - (was.get(endpointKey(one)) ?? failures ?? 0)
    rated.push({ ...one, failed: Math.max(0, more) / seconds })
  }
  const sorted = rated.toSorted(
    (a, b) =>
      b.failed - a.failed ||
      (b.endpoint.active ?? 0) - (a.endpoint.active ?? 0) ||
      (endpointKey(a) < endpointKey(b) ? -1 : 1),
  )
  return tableOf(ratedColumns(sorted), sorted)
}

const ratedColumns = (
  all: readonly RatedEndpoint[],
): readonly Column<RatedEndpoint>[] => [
  { name: 'NAME', read: one => one.name },
  endpointColumns.owner(all),
  endpointColumns.state,
  endpointColumns.active,
  failedColumn(one => (one.endpoint.failures === null ? null : one.failed)),
  { name: 'WEIGHT', isNumber: true, read: one => String(one.endpoint.weight) },
]

const endpointsOf = ({ servicePort, protocol, endpoints = [] }: SnapshotPort) =>
  ownedEndpoints({ servicePort, protocol, endpoints })

const endpointKey = ({ name, port }: OwnedEndpoint): string =>
  `${name} ${port.servicePort} ${port.protocol}`

/** One line above the table. */
export const headLine = (status: StatusOf<TopPort>): string => {
  const { servicePorts, mode } = status
  const active = servicePorts.reduce((sum, port) => sum + (port.active ?? 0), 0)
  const { parts } = headlineOf(overallOf(status), servicePorts)
  return `Usher ${parts.join(' · ')}; ${mode} mode, ${count(servicePorts.length, 'port')}, ${count(active, 'connection')}`
}
