import type { OptionsOf } from '../config/options.ts'
import type { ListedPort, PortEndpoints, StatusOf } from '../observe/status.ts'
import { perSecond } from '../page/format.ts'
import { type Cell, type Cells, type Column, headOf, rowOf } from './columns.ts'
import {
  endpointItems,
  endpointsText,
  routeItem,
  routeName,
  stateCell,
} from './listings.ts'
import { bytesForPeople } from './io.ts'

// What `usher top` shows: pure, from two looks at the status.

export type Sorting = OptionsOf<'top'>['sort']

/** With its endpoints where those are shown. */
type ShownPort = ListedPort & Partial<Pick<PortEndpoints, 'endpoints'>>

/** Two snapshots, and how far they are apart. */
export interface Snapshots {
  readonly before: readonly ShownPort[]
  readonly after: readonly ShownPort[]
  readonly seconds: number
}

/** Ports of Services, in a table with its head. */
export const serviceRows = (snapshots: Snapshots, sorting: Sorting): readonly Cells[] => {
  const was = new Map(snapshots.before.map(port => [identity(port), port]))
  const rates = snapshots.after.map(port =>
    ratesOf(port, was.get(identity(port)), snapshots),
  )
  const now = Date.now()
  return [
    headOf(serviceColumns),
    ...rates.toSorted(orders[sorting]).map(one => rowOf(serviceColumns, one, now)),
  ]
}

const identity = ({ servicePort, protocol, family }: ListedPort): string =>
  `${servicePort} ${protocol} ${family}`

interface Rates {
  readonly port: ListedPort
  readonly name: string
  readonly active: number
  readonly new: number
  readonly failed: number
  readonly retries: number
  readonly toBackends: number
  readonly toClients: number
}

const ratesOf = (
  port: ListedPort,
  was: ListedPort | undefined,
  { seconds }: Snapshots,
): Rates => {
  type Counter = 'accepted' | 'failed' | 'retries' | 'bytesToBackend' | 'bytesToClient'
  // What was not there yet has no rate. A data plane that was started again counts from 0.
  const rate = (counter: Counter): number =>
    was === undefined ? 0 : Math.max(0, port[counter] - was[counter]) / seconds
  return {
    port,
    name: routeName(port.servicePort),
    active: port.active,
    new: rate('accepted'),
    failed: rate('failed'),
    retries: rate('retries'),
    toBackends: rate('bytesToBackend'),
    toClients: rate('bytesToClient'),
  }
}

const serviceColumns: readonly Column<Rates>[] = [
  ['NAME', one => one.name],
  ['PROTOCOL', one => one.port.protocol],
  ['ENDPOINTS', one => endpointsText(routeItem(one.port))],
  ['ACTIVE', one => String(one.active)],
  ['NEW/S', one => perSecond(one.new)],
  ['FAILED/S', one => failedCell(one.failed)],
  ['RETRIES/S', one => perSecond(one.retries)],
  ['TO-BACKENDS/S', one => bytesForPeople(Math.round(one.toBackends))],
  ['TO-CLIENTS/S', one => bytesForPeople(Math.round(one.toClients))],
  ['STATE', (one, now) => stateCell(routeItem(one.port), now)],
]

const failedCell = (failed: number): string | Cell =>
  failed > 0 ? { text: perSecond(failed), style: 'red' } : perSecond(failed)

type Order = (a: Rates, b: Rates) => number

const byName: Order = (a, b) => (a.name < b.name ? -1 : 1)
const most =
  (of: (rates: Rates) => number): Order =>
  (a, b) =>
    of(b) - of(a) || byName(a, b)

const orders: Readonly<Record<Sorting, Order>> = {
  new: most(rates => rates.new),
  active: most(({ active }) => active),
  failed: most(({ failed }) => failed),
  retries: most(({ retries }) => retries),
  bytes: most(({ toBackends, toClients }) => toBackends + toClients),
  name: byName,
}

/** Endpoints of all of them, those that fail most, then the busiest, first. */
export const endpointRows = ({ before, after, seconds }: Snapshots): readonly Cells[] => {
  const was = new Map(
    before.flatMap(itemsOf).map(one => [endpointKey(one), one.failures]),
  )
  const rates = after.flatMap(itemsOf).map(item => {
    const failures = item.failures - (was.get(endpointKey(item)) ?? item.failures)
    return { item, failed: Math.max(0, failures) / seconds }
  })
  const sorted = rates.toSorted(
    (a, b) =>
      b.failed - a.failed ||
      b.item.active - a.item.active ||
      (endpointKey(a.item) < endpointKey(b.item) ? -1 : 1),
  )
  return [
    ['ENDPOINT', 'ROUTE', 'STATE', 'ACTIVE', 'FAILED/S', 'WEIGHT'],
    ...sorted.map(({ item, failed }): Cells => [
      item.name,
      item.route,
      item.state,
      String(item.active),
      failedCell(failed),
      String(item.weight),
    ]),
  ]
}

const itemsOf = ({ servicePort, protocol, endpoints = [] }: ShownPort) =>
  endpointItems({ servicePort, protocol, endpoints })

const endpointKey = (one: { name: string; route: string; protocol: string }): string =>
  `${one.name} ${one.route} ${one.protocol}`

/** One line above the table. */
export const headLine = ({
  healthy,
  draining,
  problems,
  servicePorts,
  mode,
}: StatusOf<ListedPort>): string => {
  const active = servicePorts.reduce((sum, port) => sum + port.active, 0)
  const state = draining ? 'draining' : healthy ? 'healthy' : 'NOT HEALTHY'
  const more = problems.length === 0 ? '' : `, ${problems.length} problems (usher status)`
  return `${state}, ${mode} mode, ${servicePorts.length} ports, ${active} connections${more}`
}
