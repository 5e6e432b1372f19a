import { listedKinds } from '../config/options/control.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import type { ListedPort, PortEndpoints, StatusOf } from '../observe/status.ts'
import { endpointState } from '../page/endpoint-words.ts'
import { type Cell, type Cells, type Column, headOf, rowOf } from './columns.ts'
import type {
  EndpointItem,
  itemShapes,
  ListenerItem,
  RouteItem,
  ServiceItem,
} from './json-documents.ts'
import { isOfService } from './status.ts'
import { bytesForPeople, forPeople, optionTexts } from './io.ts'

// What `usher get` lists: items of JSON and YAML as docs/control.md has them, and columns of tables.

/** A route is called by its name alone, the port of a Service as `namespace/name:port`. */
export const routeName = (servicePort: string): string =>
  servicePort.replace(/^route\//, '')

/** Why nothing is listed before the source has been read; '' when it has, or something is served. */
export const emptyReason = (status: StatusOf<unknown>): string => {
  const { source, servicePorts, unhealthy } = status
  if (source.synced || servicePorts.length > 0) return ''
  const reason = unhealthy.join('; ') || source.error || `${source.name} is not read yet`
  return `nothing is served yet: ${reason}`
}

/** Whether something of this name is in a namespace; '' for any. */
export const isInNamespace = (name: string, namespace: string): boolean =>
  namespace === '' || name.startsWith(`${namespace}/`)

export const routeItem = (port: ListedPort): RouteItem => {
  const { endpointCounts, paused, active, held, queued } = port
  return {
    name: routeName(port.servicePort),
    protocol: port.protocol,
    family: port.family,
    listen: port.vips.map(({ vip }) => vip),
    endpoints: endpointCounts,
    state:
      paused !== null ? 'paused' : endpointCounts.usable === 0 ? 'no endpoints' : 'ok',
    paused,
    active,
    waiting: held + queued,
    accepted: port.accepted,
    failed: port.failed,
    failedBy: port.failedBy,
    bytesToBackend: port.bytesToBackend,
    bytesToClient: port.bytesToClient,
    options: port.options,
  }
}

/** In red where clients are not served. */
export const stateCell = ({ paused, state }: RouteItem, now: number): Cell =>
  paused === null
    ? { text: state, ...(state === 'no endpoints' && { style: 'red' as const }) }
    : { text: `paused ${age(paused.since, now)}`, style: 'yellow' }

const age = (since: string, now: number): string => forPeople(now - Date.parse(since))

/** `usable/all`. */
export const endpointsText = ({ endpoints }: RouteItem): string =>
  `${endpoints.usable}/${endpoints.all}`

const routeColumns: readonly Column<RouteItem>[] = [
  ['NAME', one => one.name],
  ['PROTOCOL', one => one.protocol],
  ['LISTEN', one => one.listen.join(',')],
  ['ENDPOINTS', endpointsText],
  ['ACTIVE', one => String(one.active)],
  ['WAITING', one => String(one.waiting)],
  ['STATE', stateCell],
  ['FAMILY+', one => one.family],
  ['ACCEPTED+', one => String(one.accepted)],
  ['FAILED+', one => String(one.failed)],
  ['TO-BACKENDS+', one => bytesForPeople(one.bytesToBackend)],
  ['TO-CLIENTS+', one => bytesForPeople(one.bytesToClient)],
  ['OPTIONS+', one => optionTexts(one.options).join(' ') || '-'],
]

export const endpointItems = ({
  servicePort,
  protocol,
  endpoints,
}: PortEndpoints): readonly EndpointItem[] =>
  endpoints.map(endpoint => ({
    name: endpoint.endpoint,
    route: routeName(servicePort),
    protocol,
    state: endpointState(endpoint),
    since: endpoint.drained?.since ?? endpoint.check?.since ?? null,
    drained: endpoint.drained,
    weight: endpoint.weight,
    weightSince: endpoint.weightSince,
    active: endpoint.active,
    failures: endpoint.failures,
    check: endpoint.check,
  }))

const endpointColumns: readonly Column<EndpointItem>[] = [
  ['NAME', one => one.name],
  ['ROUTE', one => one.route],
  ['STATE', one => one.state],
  ['WEIGHT', one => `${one.weight}${one.weightSince === null ? '' : ' (by order)'}`],
  ['ACTIVE', one => String(one.active)],
  ['FAILURES', one => String(one.failures)],
  ['AGE', (one, now) => (one.since === null ? '-' : age(one.since, now))],
  ['PROTOCOL+', one => one.protocol],
  ['HOST+', one => one.check?.host || '-'],
  ['CHECK+', one => one.check?.why || '-'],
]

const serviceItem = (port: ListedPort): ServiceItem => {
  const others = port.vips.filter(({ kind }) => kind !== 'ClusterIP')
  const clusterIp = port.vips.find(({ kind }) => kind === 'ClusterIP')?.vip ?? ''
  // `namespace/name:port` in its parts.
  const [, namespace = '', service = '', portName = ''] =
    /^([^/]*)\/([^:]*):?(.*)$/.exec(port.servicePort) ?? []
  return {
    ...routeItem(port),
    namespace,
    service,
    port: portName,
    clusterIp,
    otherAddresses: others.map(({ vip }) => vip),
  }
}

const serviceColumns: readonly Column<ServiceItem>[] = [
  ['NAMESPACE', one => one.namespace],
  ['NAME', one => one.service],
  ['PORT', one => one.port || '-'],
  ['PROTOCOL', one => one.protocol],
  ['CLUSTER-IP', one => one.clusterIp || '-'],
  ['OTHER-ADDRESSES', one => one.otherAddresses.join(',') || '-'],
  ['ENDPOINTS', endpointsText],
  ['ACTIVE', one => String(one.active)],
  ['FAILED', one => String(one.failed)],
  ['STATE', stateCell],
  ['FAMILY+', one => one.family],
  ['ACCEPTED+', one => String(one.accepted)],
]

const listenerItems = (port: ListedPort): readonly ListenerItem[] =>
  port.vips.map(({ vip, ...rest }) => ({
    name: vip,
    service: routeName(port.servicePort),
    protocol: port.protocol,
    ...rest,
  }))

const listenerColumns: readonly Column<ListenerItem>[] = [
  ['NAME', one => one.name],
  ['SERVICE', one => one.service],
  ['KIND', one => one.kind],
  ['PROTOCOL', one => one.protocol],
  ['CAPTURE', one => one.capture],
  ['LISTEN', one => one.listen || '-'],
  ['STATE', ({ state }) => (state === 'failed' ? { text: state, style: 'red' } : state)],
  ['REASON+', one => one.reason || '-'],
]

type Connections = AnswerOf<'connections'>['connections']

const connectionItem = ({ id: name, ...rest }: Connections[number]) => ({ name, ...rest })

const connectionColumns: readonly Column<ReturnType<typeof connectionItem>>[] = [
  ['NAME', one => one.name],
  ['ROUTE', one => one.route],
  ['CLIENT', one => one.client],
  ['ENDPOINT', one => one.endpoint || '-'],
  ['STATE', one => one.state],
  ['AGE', one => forPeople(one.ageMs)],
  ['TO-BACKEND', one => bytesForPeople(one.bytesToBackend)],
  ['TO-CLIENT', one => bytesForPeople(one.bytesToClient)],
  ['IDLE+', one => (one.idleMs === null ? '-' : forPeople(one.idleMs))],
]

/** What is listed of one kind. */
export interface Listing {
  /** Of the document of JSON and YAML: `ServiceList`. */
  readonly kind: keyof typeof itemShapes
  /** What stands before a name: `service`. */
  readonly one: string
  readonly items: readonly Item[]
  /** How many there are besides. */
  readonly left: number
  /** Names of columns. */
  readonly head: (wide: boolean) => Cells
}

/** As docs/control.md has it; how it is shown in a table is no part of the document. */
export interface Item {
  readonly name: string
  /** `now`: epoch milliseconds. */
  readonly row: (now: number, wide: boolean) => Cells
  readonly document: object
}

/** Columns whose names end with + are of the wide table. */
const listing = <T extends { readonly name: string }>(
  kind: Listing['kind'],
  all: readonly T[],
  columns: readonly Column<T>[],
  left = 0,
): Listing => {
  const shown = (wide: boolean) => columns.filter(([head]) => wide || !head.endsWith('+'))
  return {
    kind,
    one: kind.replace('List', '').toLowerCase(),
    items: all.map(document => ({
      name: document.name,
      row: (now, wide) => rowOf(shown(wide), document, now),
      document,
    })),
    left,
    head: wide => headOf(shown(wide)).map(name => name.replace('+', '')),
  }
}

export type Kind = (typeof listedKinds)[number]

/** By kind, what is listed of ports of Services, or of connections. */
export const listings = {
  services: (ports: readonly ListedPort[]): Listing =>
    listing('ServiceList', ports.filter(isOfService).map(serviceItem), serviceColumns),
  endpoints: (ports: readonly PortEndpoints[]): Listing =>
    listing('EndpointList', ports.flatMap(endpointItems), endpointColumns),
  listeners: (ports: readonly ListedPort[]): Listing =>
    listing('ListenerList', ports.flatMap(listenerItems), listenerColumns),
  routes: (ports: readonly ListedPort[]): Listing =>
    listing('RouteList', ports.map(routeItem), routeColumns),
  connections: (all: Connections, left: number): Listing =>
    listing('ConnectionList', all.map(connectionItem), connectionColumns, left),
} satisfies Readonly<Record<Kind, unknown>>

/** How users call the kinds, as kubectl lets them. */
export const kindNames: ReadonlyMap<string, Kind> = new Map([
  ...listedKinds.flatMap((kind): [string, Kind][] => [
    [kind, kind],
    [kind.slice(0, -1), kind],
  ]),
  ['svc', 'services'],
  ['ep', 'endpoints'],
])
