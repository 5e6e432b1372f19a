import * as v from 'valibot'
import { controlCommands } from '../observe/control-protocol.ts'
import { statusShapes } from '../observe/status.ts'
import type { DeepReadonly } from '../util/deep-readonly.ts'

// What `-o json` prints, as shapes: deploy/output.schema.json is made from them.

const text = v.string()
const number = v.number()
const figure = v.nullable(number)
const { vip } = statusShapes
const { entries: endpoint } = statusShapes.endpoint
const { entries: servicePort } = statusShapes.servicePort

/** Of what `-o json` and `-o yaml` print, but of the status. */
export const apiVersion = 'usher-proxy.io/v1alpha1'

const route = v.object({
  name: text,
  protocol: servicePort.protocol,
  family: servicePort.family,
  /** Where its clients come in. */
  listen: v.array(text),
  endpoints: statusShapes.endpointCounts,
  state: statusShapes.state,
  paused: servicePort.paused,
  active: figure,
  waiting: figure,
  accepted: figure,
  failed: figure,
  failedBy: servicePort.failedBy,
  bytesToBackend: figure,
  bytesToClient: figure,
  options: servicePort.options,
})

const service = v.object({
  ...route.entries,
  namespace: text,
  service: text,
  /** The name of the port; '' where it has none. */
  port: text,
  clusterIp: text,
  otherAddresses: v.array(text),
})

const endpointItem = v.object({
  name: text,
  route: text,
  protocol: servicePort.protocol,
  state: v.picklist([
    'ready',
    'terminating',
    'not ready',
    'drained',
    'down',
    'unused',
    'cooling down',
  ]),
  /** Since when it is so, ISO 8601; null where that is not known. */
  since: v.nullable(text),
  drained: endpoint.drained,
  weight: number,
  weightSince: v.nullable(text),
  active: figure,
  failures: figure,
  check: endpoint.check,
})

const listener = v.object({
  /** Where clients dial. */
  name: text,
  service: text,
  protocol: servicePort.protocol,
  ...v.omit(vip, ['vip']).entries,
})

const openConnection = controlCommands.connections.answer.entries.connections.item

const connection = v.object({ name: text, ...v.omit(openConnection, ['id']).entries })

/** One item of each kind of list. */
export const itemShapes = {
  ServiceList: service,
  EndpointList: endpointItem,
  ListenerList: listener,
  RouteList: route,
  ConnectionList: connection,
} as const

/** What stands alone: of `usher tap` an object a line, of `usher explain` the whole. */
export const singleShapes = {
  EndedConnection: controlCommands.ended.answer.entries.connections.item,
  OpenConnection: connection,
  LeftOut: v.object({ leftOut: number }),
  Gap: v.object({ message: text }),
  Explanation: controlCommands.explain.answer,
} as const

/** An item of this kind of list. */
export type ItemOf<K extends keyof typeof itemShapes> = DeepReadonly<
  v.InferOutput<(typeof itemShapes)[K]>
>
