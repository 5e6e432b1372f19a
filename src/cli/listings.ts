import { listedKinds } from '../config/options/control.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import type {
  EndpointRun,
  ListedPort,
  PortEndpoints,
  PortListeners,
  StatusOf,
  VipStatus,
} from '../observe/status.ts'
import type { Column } from '../page/column.ts'
import {
  endpointState,
  endpointsText,
  type Figure,
  figureText,
  isOfService,
  routeName,
  serviceStates,
  severityStyle,
  withoutPort,
} from '../page/service-words.ts'
import { type Cells, headOf, rowOf } from './text-table.ts'
import type { itemShapes, ItemOf } from './json-documents.ts'
import { suggest } from '../util/suggest.ts'
import { UsherError } from '../util/usher-error.ts'
import { bytesForPeople, forPeople, optionTexts } from './io.ts'

// What `usher get` lists: of each kind the columns of its table, and its documents of JSON and YAML as
// docs/operating.md has them.

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

/** A kind of list. Columns whose names end with + are of the wide table. */
interface Table<K extends keyof typeof itemShapes, T> {
  /** Whether its figures are counted; default: all are. */
  readonly isCounted?: (one: T) => boolean
  readonly kind: K
  readonly nameOf: (one: T) => string
  readonly columns: (all: readonly T[]) => readonly Column<T>[]
  readonly documentOf: (one: T) => ItemOf<K>
}

const routeDocument = (port: ListedPort): ItemOf<'RouteList'> => ({
  name: routeName(port.servicePort),
  protocol: port.protocol,
  family: port.family,
  listen: port.vips.map(({ vip }) => vip),
  endpoints: port.endpointCounts,
  state: port.state,
  paused: port.paused,
  active: port.active,
  waiting: waitingOf(port),
  accepted: port.accepted,
  failed: port.failed,
  failedBy: port.failedBy,
  bytesToBackend: port.bytesToBackend,
  bytesToClient: port.bytesToClient,
  options: port.options,
})

const waitingOf = ({ held, queued }: ListedPort): Figure =>
  held === null || queued === null ? null : held + queued

const age = (since: string, now: number): string => forPeople(now - Date.parse(since))

/** In red where clients are not served. */
export const stateColumn: Column<Pick<ListedPort, 'paused' | 'state'>> = {
  name: 'STATE',
  read: ({ paused, state }, now) =>
    state === 'paused' && paused !== null ? `${state} ${age(paused.since, now)}` : state,
  style: ({ state }) => severityStyle(serviceStates[state]),
}

const routes: Table<'RouteList', ListedPort> = {
  kind: 'RouteList',
  isCounted: one => one.active !== null,
  nameOf: one => routeName(one.servicePort),
  documentOf: routeDocument,
  columns: () => [
    { name: 'NAME', read: one => routeName(one.servicePort) },
    { name: 'PROTOCOL', read: one => one.protocol },
    { name: 'LISTEN', read: one => one.vips.map(({ vip }) => vip).join(',') },
    { name: 'ENDPOINTS', isNumber: true, read: endpointsText },
    { name: 'ACTIVE', isNumber: true, read: one => figureText(one.active) },
    { name: 'WAITING', isNumber: true, read: one => figureText(waitingOf(one)) },
    stateColumn,
    { name: 'FAMILY+', read: one => one.family },
    { name: 'ACCEPTED+', isNumber: true, read: one => figureText(one.accepted) },
    { name: 'FAILED+', isNumber: true, read: one => figureText(one.failed) },
    {
      name: 'TO-BACKENDS+',
      isNumber: true,
      read: one => figureText(one.bytesToBackend, bytesForPeople),
    },
    {
      name: 'TO-CLIENTS+',
      isNumber: true,
      read: one => figureText(one.bytesToClient, bytesForPeople),
    },
    { name: 'OPTIONS+', read: one => optionTexts(one.options).join(' ') || '-' },
  ],
}

/** `namespace/name:port` in its parts. */
const partsOf = ({ servicePort }: ListedPort) => {
  const [, namespace = '', service = '', port = ''] =
    /^([^/]*)\/([^:]*):?(.*)$/.exec(servicePort) ?? []
  return { namespace, service, port }
}

const addressesOf = ({ vips }: ListedPort) => ({
  clusterIp: vips.find(({ kind }) => kind === 'ClusterIP')?.vip ?? '',
  otherAddresses: vips.filter(({ kind }) => kind !== 'ClusterIP').map(({ vip }) => vip),
})

const services: Table<'ServiceList', ListedPort> = {
  kind: 'ServiceList',
  isCounted: one => one.active !== null,
  nameOf: routes.nameOf,
  documentOf: port => ({
    ...routeDocument(port),
    ...partsOf(port),
    ...addressesOf(port),
  }),
  columns: () => [
    { name: 'NAMESPACE', read: one => partsOf(one).namespace },
    { name: 'NAME', read: one => partsOf(one).service },
    { name: 'PORT', read: one => partsOf(one).port || '-' },
    { name: 'PROTOCOL', read: one => one.protocol },
    { name: 'CLUSTER-IP', read: one => addressesOf(one).clusterIp || '-' },
    {
      name: 'OTHER-ADDRESSES',
      read: one => addressesOf(one).otherAddresses.join(',') || '-',
    },
    { name: 'ENDPOINTS', isNumber: true, read: endpointsText },
    { name: 'ACTIVE', isNumber: true, read: one => figureText(one.active) },
    { name: 'FAILED', isNumber: true, read: one => figureText(one.failed) },
    stateColumn,
    { name: 'FAMILY+', read: one => one.family },
    { name: 'ACCEPTED+', isNumber: true, read: one => figureText(one.accepted) },
  ],
}

/** An endpoint, and whose it is. */
export interface OwnedEndpoint {
  /** `ip:port`. */
  readonly name: string
  readonly endpoint: EndpointRun
  readonly port: PortEndpoints
}

export const ownedEndpoints = (port: PortEndpoints): readonly OwnedEndpoint[] =>
  port.endpoints.flatMap(endpoint =>
    [endpoint.endpoint, ...(endpoint.alike ?? [])].map(name => ({
      name,
      endpoint,
      port,
    })),
  )

const sinceOf = ({ endpoint: { drained, check } }: OwnedEndpoint): string | null =>
  drained?.since ?? check?.since ?? null

const ofEndpoint = ({ port }: OwnedEndpoint): string => routeName(port.servicePort)

/** Whose something is. In a sidecar these are routes, whose names have no namespace. */
const ownerColumn = <T>(ownerOf: (one: T) => string, all: readonly T[]): Column<T> => ({
  name: all.some(one => !ownerOf(one).includes('/')) ? 'ROUTE' : 'SERVICE',
  read: ownerOf,
})

/** Those of `usher top`, too. */
export const endpointColumns = {
  owner: (all: readonly OwnedEndpoint[]) => ownerColumn(ofEndpoint, all),
  state: { name: 'STATE', read: one => endpointState(one.endpoint) },
  active: {
    name: 'ACTIVE',
    isNumber: true,
    read: one => figureText(one.endpoint.active),
  },
} as const satisfies Readonly<
  Record<
    string,
    Column<OwnedEndpoint> | ((all: readonly OwnedEndpoint[]) => Column<OwnedEndpoint>)
  >
>

const endpoints: Table<'EndpointList', OwnedEndpoint> = {
  kind: 'EndpointList',
  isCounted: one => one.endpoint.active !== null,
  nameOf: one => one.name,
  documentOf: one => ({
    name: one.name,
    route: routeName(one.port.servicePort),
    protocol: one.port.protocol,
    state: endpointState(one.endpoint),
    since: sinceOf(one),
    drained: one.endpoint.drained,
    weight: one.endpoint.weight,
    weightSince: one.endpoint.weightSince,
    active: one.endpoint.active,
    failures: one.endpoint.failures,
    check: one.endpoint.check,
  }),
  columns: all => [
    { name: 'NAME', read: one => one.name },
    endpointColumns.owner(all),
    endpointColumns.state,
    {
      name: 'WEIGHT',
      read: ({ endpoint: { weight, weightSince } }) =>
        `${weight}${weightSince === null ? '' : ' (by order)'}`,
    },
    endpointColumns.active,
    { name: 'FAILURES', isNumber: true, read: one => figureText(one.endpoint.failures) },
    {
      name: 'AGE',
      isNumber: true,
      read: (one, now) => {
        const since = sinceOf(one)
        return since === null ? '-' : age(since, now)
      },
    },
    { name: 'PROTOCOL+', read: one => one.port.protocol },
    { name: 'HOST+', read: one => one.endpoint.check?.host || '-' },
    {
      name: 'CHECK+',
      read: ({ endpoint: { check } }) => (check === null ? '-' : checkWord(check)),
    },
  ],
}

/** What the last check said; one that passed says nothing. */
const checkWord = ({ up, since, why }: NonNullable<EndpointRun['check']>): string =>
  why || (since === null ? 'not checked yet' : up ? 'up' : 'down')

/** Where clients of a port come in. */
interface OwnedVip {
  readonly vip: VipStatus
  readonly port: PortListeners
}

const listeners: Table<'ListenerList', OwnedVip> = {
  kind: 'ListenerList',
  nameOf: ({ vip }) => vip.vip,
  documentOf: ({ vip: { vip: name, ...rest }, port }) => ({
    name,
    service: routeName(port.servicePort),
    protocol: port.protocol,
    ...rest,
  }),
  columns: all => [
    { name: 'NAME', read: ({ vip }) => vip.vip },
    ownerColumn(({ port }) => routeName(port.servicePort), all),
    { name: 'KIND', read: ({ vip }) => vip.kind },
    { name: 'PROTOCOL', read: ({ port }) => port.protocol },
    { name: 'CAPTURE', read: ({ vip }) => vip.capture },
    { name: 'LISTEN', read: ({ vip }) => vip.listen || '-' },
    {
      name: 'STATE',
      read: ({ vip }) => vip.state,
      style: ({ vip }) => (vip.state === 'failed' ? 'red' : undefined),
    },
    { name: 'REASON+', read: ({ vip }) => vip.reason || '-' },
  ],
}

type Connection = AnswerOf<'connections'>['connections'][number]

const connections: Table<'ConnectionList', Connection> = {
  kind: 'ConnectionList',
  nameOf: one => one.id,
  documentOf: ({ id: name, ...rest }) => ({ name, ...rest }),
  columns: all => [
    { name: 'NAME', read: one => one.id },
    ownerColumn(({ route }) => route, all),
    { name: 'CLIENT', read: one => one.client },
    { name: 'ENDPOINT', read: one => one.endpoint || '-' },
    { name: 'STATE', read: one => one.state },
    { name: 'AGE', isNumber: true, read: one => forPeople(one.ageMs) },
    {
      name: 'TO-BACKEND',
      isNumber: true,
      read: one => bytesForPeople(one.bytesToBackend),
    },
    { name: 'TO-CLIENT', isNumber: true, read: one => bytesForPeople(one.bytesToClient) },
    {
      name: 'IDLE+',
      isNumber: true,
      read: one => (one.idleMs === null ? '-' : forPeople(one.idleMs)),
    },
  ],
}

/** What is listed. */
export interface Listing {
  /** Of the document of JSON and YAML: `ServiceList`. */
  readonly kind: keyof typeof itemShapes
  /** What stands before a name: `service`. */
  readonly one: string
  readonly items: readonly Item[]
  /** How many there are besides. */
  readonly left: number
  /** False where a figure of an item is missing. */
  readonly isCounted: boolean
  /** Names of columns. */
  readonly head: (layout: ColumnChoice) => Cells
}

/** Which columns a table has. */
export interface ColumnChoice {
  readonly wide: boolean
  /** Items may be of several namespaces. */
  readonly namespaces: boolean
}

export interface Item {
  readonly name: string
  /** `now`: epoch milliseconds. */
  readonly row: (now: number, layout: ColumnChoice) => Cells
  /** As docs/operating.md has it. */
  readonly document: () => object
}

const listing = <K extends keyof typeof itemShapes, T>(
  { kind, nameOf, columns, documentOf, isCounted = () => true }: Table<K, T>,
  all: readonly T[],
  left = 0,
): Listing => {
  const possible = columns(all)
  const shown = ({ wide, namespaces }: ColumnChoice) =>
    possible.filter(
      ({ name }) => (wide || !name.endsWith('+')) && (namespaces || name !== 'NAMESPACE'),
    )
  return {
    kind,
    one: kind.replace('List', '').toLowerCase(),
    items: all.map(one => ({
      name: nameOf(one),
      row: (now, layout) => rowOf(shown(layout), one, now),
      document: () => documentOf(one),
    })),
    left,
    isCounted: all.every(isCounted),
    head: layout => headOf(shown(layout)),
  }
}

export type Kind = (typeof listedKinds)[number]

/** By kind, what is listed of ports of Services, or of connections. */
export const listings = {
  services: (ports: readonly ListedPort[]): Listing =>
    listing(services, ports.filter(isOfService)),
  endpoints: (ports: readonly PortEndpoints[]): Listing =>
    listing(endpoints, ports.flatMap(ownedEndpoints)),
  listeners: (ports: readonly PortListeners[]): Listing =>
    listing(
      listeners,
      ports.flatMap(port => port.vips.map(vip => ({ vip, port }))),
    ),
  routes: (ports: readonly ListedPort[]): Listing => listing(routes, ports),
  connections: (all: readonly Connection[], left: number): Listing =>
    listing(connections, all, left),
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

/** What `usher get -o name` prints names it too: `endpoint/10.0.0.5:80`, `service/default/web:http`. */
export const bareName = (given: string, kind: Kind): string => {
  const [word = '', ...rest] = given.split('/')
  const called = kindNames.get(word)
  // On a node routes are Services. `service/web` is a Service in a namespace of that name.
  const isService = kind === 'services' && (called === 'services' || called === 'routes')
  const isMeant = isService ? rest.length > 1 : called === kind && kind !== 'routes'
  return isMeant && rest.length > 0 ? rest.join('/') : given
}

export type Named = Pick<ListedPort, 'servicePort'>

/** By the name of a route, of a Service, or of one of its ports. */
export const isCalled = ({ servicePort }: Named, given: string): boolean =>
  servicePort === given || isNamed(routeName(servicePort), given)

/** As orders name them: see `namedServicePorts`. */
const isNamed = (route: string, given: string): boolean =>
  route === given || withoutPort(route) === given

export const notFound = (given: string, ports: readonly Named[]): UsherError => {
  const full = ports.map(({ servicePort }) => routeName(servicePort))
  const known = [...new Set(full.flatMap(name => [withoutPort(name), name]))]
  // Who leaves the namespace out means one of any.
  const meant =
    suggest(given, known) ?? known.find(name => name.replace(/^[^/]*\//, '') === given)
  const hint =
    meant === undefined ? 'usher get services lists them' : `did you mean ${meant}?`
  return new UsherError(
    'NOT_FOUND',
    `there is no Service or route ${JSON.stringify(given)}; ${hint}`,
  )
}
