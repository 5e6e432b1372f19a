import type { ListedPort } from '../observe/status.ts'
import type { Cell, Cells } from './columns.ts'
import type { ListenerItem, ServiceItem } from './json-documents.ts'
import { routeItem, routeName, stateCell } from './get-items.ts'

// What `usher get services` and `usher get listeners` list.

export const servicesTable = [
  'NAMESPACE',
  'NAME',
  'PORT',
  'PROTOCOL',
  'CLUSTER-IP',
  'OTHER-ADDRESSES',
  'ENDPOINTS',
  'ACTIVE',
  'FAILED',
  'STATE',
  'FAMILY+',
  'ACCEPTED+',
]

/** `namespace/name:port` in its parts. */
const partsOf = (
  servicePort: string,
): { readonly namespace: string; readonly service: string; readonly port: string } => {
  const [, namespace = '', service = '', port = ''] =
    /^([^/]*)\/([^:]*):?(.*)$/.exec(servicePort) ?? []
  return { namespace, service, port }
}

export const serviceItem = (port: ListedPort): ServiceItem => {
  const others = port.vips.filter(({ kind }) => kind !== 'ClusterIP')
  const clusterIp = port.vips.find(({ kind }) => kind === 'ClusterIP')?.vip ?? ''
  return {
    ...routeItem(port),
    ...partsOf(port.servicePort),
    clusterIp,
    otherAddresses: others.map(({ vip }) => vip),
  }
}

export const serviceRow = (item: ServiceItem, now: number, wide: boolean): Cells => [
  item.namespace,
  item.service,
  item.port || '-',
  item.protocol,
  item.clusterIp || '-',
  item.otherAddresses.join(',') || '-',
  `${item.endpoints.usable}/${item.endpoints.all}`,
  String(item.active),
  String(item.failed),
  stateCell(item, now),
  ...(wide ? [item.family, String(item.accepted)] : []),
]

export const listenersTable = [
  'NAME',
  'SERVICE',
  'KIND',
  'PROTOCOL',
  'CAPTURE',
  'LISTEN',
  'STATE',
  'REASON+',
]

export const listenerItems = ({
  servicePort,
  protocol,
  vips,
}: ListedPort): readonly ListenerItem[] =>
  vips.map(({ vip, ...rest }) => ({
    name: vip,
    service: routeName(servicePort),
    protocol,
    ...rest,
  }))

export const listenerRow = (item: ListenerItem, wide: boolean): Cells => {
  const state: Cell = {
    text: item.state,
    ...(item.state === 'failed' && { style: 'red' as const }),
  }
  return [
    item.name,
    item.service,
    item.kind,
    item.protocol,
    item.capture,
    item.listen || '-',
    state,
    ...(wide ? [item.reason || '-'] : []),
  ]
}
