import type { AnswerOf } from '../observe/control-protocol.ts'
import type { ListedPort, PortEndpoints, StatusOf } from '../observe/status.ts'
import { endpointState } from '../page/endpoint-words.ts'
import type { Cell, Cells } from './columns.ts'
import type { EndpointItem, RouteItem } from './json-documents.ts'
import { bytesForPeople, forPeople, optionTexts } from './words.ts'

// What `usher get` lists: items of JSON and YAML as docs/control.md has them, and rows of tables.

/** A route is called by its name alone, the port of a Service as `namespace/name:port`. */
export const routeName = (servicePort: string): string =>
  servicePort.replace(/^route\//, '')

/** Why nothing is listed before the source has been read; '' when it has, or something is served. */
export const whyNothingYet = (status: StatusOf<unknown>): string => {
  const { source, servicePorts, unhealthy } = status
  if (source.synced || servicePorts.length > 0) return ''
  const why = unhealthy.join('; ') || source.error || `${source.name} is not read yet`
  return `nothing is served yet: ${why}`
}

/** Whether something of this name is in a namespace; '' for any. */
export const isInNamespace = (name: string, namespace: string): boolean =>
  namespace === '' || name.startsWith(`${namespace}/`)

export const routesTable = [
  'NAME',
  'PROTOCOL',
  'LISTEN',
  'ENDPOINTS',
  'ACTIVE',
  'WAITING',
  'STATE',
  'FAMILY+',
  'ACCEPTED+',
  'FAILED+',
  'TO-BACKENDS+',
  'TO-CLIENTS+',
  'OPTIONS+',
]

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

export const routeRow = (item: RouteItem, now: number, wide: boolean): Cells => {
  const { endpoints } = item
  return [
    item.name,
    item.protocol,
    item.listen.join(','),
    `${endpoints.usable}/${endpoints.all}`,
    String(item.active),
    String(item.waiting),
    stateCell(item, now),
    ...(wide
      ? [
          item.family,
          String(item.accepted),
          String(item.failed),
          bytesForPeople(item.bytesToBackend),
          bytesForPeople(item.bytesToClient),
          optionTexts(item.options).join(' ') || '-',
        ]
      : []),
  ]
}

export const endpointsTable = [
  'NAME',
  'ROUTE',
  'STATE',
  'WEIGHT',
  'ACTIVE',
  'FAILURES',
  'AGE',
  'PROTOCOL+',
  'HOST+',
  'CHECK+',
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

export const endpointRow = (item: EndpointItem, now: number, wide: boolean): Cells => {
  const { check, weightSince } = item
  return [
    item.name,
    item.route,
    item.state,
    weightSince === null ? String(item.weight) : `${item.weight} (by order)`,
    String(item.active),
    String(item.failures),
    item.since === null ? '-' : age(item.since, now),
    ...(wide ? [item.protocol, check?.host || '-', check?.why || '-'] : []),
  ]
}

export const connectionsTable = [
  'NAME',
  'ROUTE',
  'CLIENT',
  'ENDPOINT',
  'STATE',
  'AGE',
  'TO-BACKEND',
  'TO-CLIENT',
  'IDLE+',
]

type Connection = AnswerOf<'connections'>['connections'][number]

export const connectionRow = (one: Connection, wide: boolean): Cells => [
  one.id,
  one.route,
  one.client,
  one.endpoint || '-',
  one.state,
  forPeople(one.ageMs),
  bytesForPeople(one.bytesToBackend),
  bytesForPeople(one.bytesToClient),
  ...(wide ? [one.idleMs === null ? '-' : forPeople(one.idleMs)] : []),
]

const age = (since: string, now: number): string => forPeople(now - Date.parse(since))
