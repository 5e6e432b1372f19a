import type { listedKinds } from '../config/options/control.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import type { ListedPort, PortEndpoints } from '../observe/status.ts'
import type { Cells } from './columns.ts'
import type { itemShapes } from './json-documents.ts'
import {
  connectionRow,
  connectionsTable,
  endpointItems,
  endpointRow,
  endpointsTable,
  routeItem,
  routeRow,
  routesTable,
} from './get-items.ts'
import {
  listenerItems,
  listenerRow,
  listenersTable,
  serviceItem,
  serviceRow,
  servicesTable,
} from './get-services.ts'
import { isOfService } from './status-rows.ts'

/** What is listed of one kind. */
export interface Listing {
  /** Of the document of JSON and YAML: `ServiceList`. */
  readonly kind: keyof typeof itemShapes
  /** What stands before a name: `service`. */
  readonly one: string
  readonly items: readonly Item[]
  /** How many there are besides. */
  readonly left: number
  /** Names of columns; those that end with + are of the wide table. */
  readonly table: readonly string[]
}

/** As docs/control.md has it; how it is shown in a table is no part of the document. */
export interface Item {
  readonly name: string
  /** `now`: epoch milliseconds. */
  readonly row: (now: number, wide: boolean) => Cells
  readonly document: object
}

const itemsOf = <T extends { readonly name: string }>(
  all: readonly T[],
  row: (one: T, now: number, wide: boolean) => Cells,
): readonly Item[] =>
  all.map(document => ({
    name: document.name,
    row: (now, wide) => row(document, now, wide),
    document,
  }))

export type Kind = (typeof listedKinds)[number]

/** By kind, what is listed of ports of Services, or of connections. */
export const listings = {
  services: (ports: readonly ListedPort[]): Listing => ({
    kind: 'ServiceList',
    one: 'service',
    items: itemsOf(ports.filter(isOfService).map(serviceItem), serviceRow),
    left: 0,
    table: servicesTable,
  }),
  endpoints: (ports: readonly PortEndpoints[]): Listing => ({
    kind: 'EndpointList',
    one: 'endpoint',
    items: itemsOf(ports.flatMap(endpointItems), endpointRow),
    left: 0,
    table: endpointsTable,
  }),
  listeners: (ports: readonly ListedPort[]): Listing => ({
    kind: 'ListenerList',
    one: 'listener',
    items: itemsOf(ports.flatMap(listenerItems), (one, _now, wide) =>
      listenerRow(one, wide),
    ),
    left: 0,
    table: listenersTable,
  }),
  routes: (ports: readonly ListedPort[]): Listing => ({
    kind: 'RouteList',
    one: 'route',
    items: itemsOf(ports.map(routeItem), routeRow),
    left: 0,
    table: routesTable,
  }),
  connections: (
    connections: AnswerOf<'connections'>['connections'],
    left: number,
  ): Listing => ({
    kind: 'ConnectionList',
    one: 'connection',
    items: connections.map(one => {
      const { id: name, ...rest } = one
      return {
        name,
        row: (_now, wide) => connectionRow(one, wide),
        document: { name, ...rest },
      }
    }),
    left,
    table: connectionsTable,
  }),
} satisfies Readonly<Record<Kind, unknown>>

/** How users call the kinds, as kubectl lets them. */
export const kindNames: ReadonlyMap<string, Kind> = new Map([
  ['services', 'services'],
  ['service', 'services'],
  ['svc', 'services'],
  ['endpoints', 'endpoints'],
  ['endpoint', 'endpoints'],
  ['ep', 'endpoints'],
  ['listeners', 'listeners'],
  ['listener', 'listeners'],
  ['routes', 'routes'],
  ['route', 'routes'],
  ['connections', 'connections'],
  ['connection', 'connections'],
])
