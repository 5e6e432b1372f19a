import * as v from 'valibot'
import { modeNames } from '../mode/mode.ts'
import { type ServiceState, serviceStates } from '../page/service-words.ts'
import type { DeepReadonly } from '../util/deep-readonly.ts'

// What `/status` on the metrics address answers and `usher status` reads: the schema, and the
// types that follow from it. Fields of a later Usher are left out; `optional` is what an
// older one does not have.

const text = v.string()
const number = v.number()
/** null where the kernel carries the connections, and nothing counts them. */
const figure = v.nullable(number)
/** null where there is none. */
const optional = <S extends v.GenericSchema>(schema: S) =>
  v.optional(v.nullable(schema), null)

/** Of an order. */
const times = {
  /** ISO 8601. */
  since: text,
  /** When it ends by itself; null: when it is taken back. */
  until: v.nullable(text),
}

/** One VIP and how it is served. */
const vip = v.object({
  kind: v.picklist(['ClusterIP', 'ExternalIP', 'LoadBalancerIP', 'NodePort', 'Route']),
  /** `ip:port` that clients dial; of a route also `unix:/path`. */
  vip: text,
  capture: v.picklist([
    'nftables',
    'iptables',
    'local',
    'listen',
    'none',
    'kernel',
    'not captured',
  ]),
  /** `ip:port` that Usher listens on for it; '' when it does not. */
  listen: text,
  /** `forwarding`: the kernel forwards clients to endpoints, and nothing listens. */
  state: v.picklist([
    'listening',
    'forwarding',
    'binding',
    'refusing',
    'failed',
    'not captured',
  ]),
  /** Why the state is what it is; '' when all is well. */
  reason: text,
})

const endpoint = v.object({
  /** `ip:port`. */
  endpoint: text,
  /** `terminating`: it is ending; one that still serves is used when nothing is ready. */
  state: v.picklist(['ready', 'terminating', 'not ready']),
  /** Gets new connections of some clients now. */
  eligible: v.boolean(),
  /**
   * Whose new connections it gets: `all`, `none`, or by traffic policy those of ClusterIPs
   * (`internal`), and of all other VIPs from outside the node (`external`) and from the
   * node itself (`node`), joined with `+`.
   */
  clients: v.optional(text, 'all'),
  active: figure,
  failures: figure,
  /** Smoothed round-trip time of a connection to it, where the relay can tell. */
  rttMs: v.optional(number),
  /** Segments that were sent again, on the connections that were asked. */
  retransmits: v.optional(number),
  /** It failed a moment ago, so that others are preferred while there are any. */
  coolingDown: v.optional(v.boolean(), false),
  /** By `usher drain`: it gets no new connections. null: it is not. */
  drained: optional(v.object({ ...times, close: text })),
  /** Its share of the turns: by `usher weight` since then, or (null) as the source says. */
  weight: v.optional(number, 1),
  weightSince: optional(text),
  /** What its check says; null where there is none. */
  check: optional(
    v.object({
      up: v.boolean(),
      /** Since when checks say so, ISO 8601; null before the first. */
      since: v.nullable(text),
      /** Why the last check failed, or what could be mended all the same; '' for neither. */
      why: text,
      /** The name that its address was found by; '' when it was given by address. */
      host: text,
    }),
  ),
})

const verdict = v.picklist(['forward', 'reject', 'drop'])

/** What becomes of new clients, by where they come from; see `clients` of an endpoint. */
const verdicts = v.object({ internal: verdict, external: verdict, node: verdict })

const endpointCounts = v.object({ usable: number, all: number })

const state = v.picklist(Object.keys(serviceStates) as ServiceState[])

const servicePort = v.object({
  /** `namespace/name:port`. */
  servicePort: text,
  protocol: v.picklist(['TCP', 'UDP', 'SCTP']),
  family: v.picklist(['IPv4', 'IPv6']),
  affinityMs: number,
  verdicts: v.optional(verdicts, {
    internal: 'forward',
    external: 'forward',
    node: 'forward',
  }),
  /** loadBalancerSourceRanges of the family; null: any client. */
  sourceRanges: optional(v.array(text)),
  vips: v.array(vip),
  /** How it is as a whole, and why that is so, or why endpoints are missing; '' when all is well. */
  // Another Usher, of another version, may have other words.
  state: v.fallback(v.optional(state), undefined),
  reason: v.optional(text),
  /** Of its endpoints those that are up and get new connections of some clients now, and all. */
  endpointCounts: v.optional(endpointCounts),
  endpoints: v.array(endpoint),
  /** What is in force beyond the spec of a Service, by the names of docs/routes.md. */
  options: v.optional(v.record(text, text), {}),
  /** By `usher pause`: new TCP clients wait. null: it is not. */
  paused: optional(v.object(times)),
  /** How long a TCP client waits for an endpoint when there is none; 0: it is refused. */
  holdMs: v.optional(number, 0),
  active: figure,
  accepted: figure,
  /** Connections that ended in a failure, those ended by their clients apart. */
  failed: figure,
  /** The same by cause; see docs/architecture.md. */
  failedBy: v.optional(v.record(text, number), {}),
  retries: figure,
  /** Clients that wait now for an endpoint or the end of a pause, and those refused because too many did. */
  held: v.optional(figure, 0),
  holdRefused: v.optional(figure, 0),
  queued: v.optional(figure, 0),
  bytesToBackend: figure,
  bytesToClient: figure,
  /** Both directions; 0 for TCP. */
  datagrams: figure,
  lastError: text,
})

/** JSON leaves an undefined `lastGoodAt` out; the document has it as undefined. */
const source = v.pipe(
  v.object({
    name: text,
    synced: v.boolean(),
    lastGoodAt: v.optional(number),
    error: text,
  }),
  v.transform(({ lastGoodAt, ...rest }) => ({ ...rest, lastGoodAt })),
)

/** The node as the source knows it. */
const node = v.object({
  name: text,
  /** '' when unknown. */
  zone: text,
  /** Why `/healthz` turns load balancers away although all is served; '' when it does not. */
  notEligible: v.optional(text, ''),
})

/** What was taken, of several that could be. */
const choice = v.object({
  /** As its flag names it. */
  name: text,
  /** Why, or with what; '' when there is nothing to say. */
  detail: text,
  /** What would have been better, and why it does not work here. */
  passedOver: v.array(v.object({ name: text, detail: text })),
})

const relay = v.object({
  ...choice.entries,
  /** Threads that carry connections. */
  workers: number,
  /** null where it is a part of the process that answers, as in a sidecar. */
  ownProcess: optional(
    v.object({
      /** What that process may do, in words; '' where the system has no such thing. */
      privileges: text,
      /** Why it may do more than it has to; '' when it may not. */
      excess: text,
    }),
  ),
})

const connectTime = v.object({
  /**
   * `leading`: processes of the node are led to endpoints as they connect. `waiting`: for another Usher
   * to end, or for the first sync. `failed`, `not usable`: the mode carries all clients.
   */
  state: v.picklist(['leading', 'waiting', 'failed', 'not usable']),
  /** Whom, and where; or why not. */
  detail: text,
  /** `all` processes of the node and its pods, or those of its own network namespace (`host`). */
  clients: v.picklist(['all', 'host']),
  /** ServicePorts for which there is no room. */
  left: number,
})

export const statusSchema = v.object({
  version: text,
  mode: v.picklist(modeNames),
  /** Why this mode runs, and what asked for it, as in `--proxy-mode`; '' when nothing did. */
  modeChoice: optional(v.object({ ...choice.entries, askedBy: text })),
  startedAt: text,
  healthy: v.boolean(),
  /** What is red, in words; empty when healthy. */
  unhealthy: v.array(text),
  draining: v.boolean(),
  /** From the Usher that served here before; null where none did, or nothing could be taken over. */
  tookOver: optional(
    v.object({
      pid: number,
      version: text,
      at: text,
      /** From when all was listened on until all was here. */
      ms: number,
      connections: number,
      /** Connections that have stayed there, to be drained. */
      staying: v.array(v.object({ why: text, connections: number })),
      /** Why not all has come that should have; '' when it has. */
      lost: text,
    }),
  ),
  /** null where no node matters: manifests, routes. */
  node: optional(node),
  source,
  /** How traffic for VIPs gets to Usher; null where no Service is carried by a relay. */
  capture: optional(choice),
  /** null where it is off. */
  connectTime: optional(connectTime),
  /** What carries connections and flows; null in the kernel modes, but in
   * nftables mode once a Service asks for it. */
  relay: optional(relay),
  /** What cannot be honoured. */
  problems: v.array(v.object({ object: text, field: text, message: text })),
  /** Descriptors of the relay: its listening sockets and its connections. */
  fds: v.object({ used: number, limit: number }),
  acceptPaused: v.boolean(),
  servicePorts: v.array(servicePort),
})

/** Of parts of it, for what is made of them. */
export const statusShapes = { vip, endpoint, servicePort, endpointCounts, state } as const

/** As `?alike` tells them: names of those that follow it, and are the same but for that. */
const endpointRun = v.object({
  ...endpoint.entries,
  alike: v.optional(v.array(text)),
})

/** What lists and tables are made of; endpoints are most of the whole. */
export const listedShape = v.object({
  ...v.pick(servicePort, [
    'servicePort',
    'protocol',
    'family',
    'vips',
    'options',
    'paused',
    'active',
    'accepted',
    'failed',
    'failedBy',
    'retries',
    'held',
    'queued',
    'bytesToBackend',
    'bytesToClient',
  ]).entries,
  endpointCounts,
  state,
})

/** What `usher top` is made of, each second. */
export const topShape = v.pick(listedShape, [
  'servicePort',
  'protocol',
  'family',
  'paused',
  'active',
  'accepted',
  'failed',
  'retries',
  'bytesToBackend',
  'bytesToClient',
  'endpointCounts',
  'state',
])

export const listenersShape = v.pick(servicePort, ['servicePort', 'protocol', 'vips'])

export const endpointsShape = v.object({
  ...v.pick(servicePort, ['servicePort', 'protocol']).entries,
  endpoints: v.array(endpointRun),
})

/** What `usher status` prints. */
export const printedShape = v.object({
  ...servicePort.entries,
  endpoints: v.array(endpointRun),
})

type Out<S extends v.GenericSchema> = DeepReadonly<v.InferOutput<S>>

/** What was taken over, in a sentence: for log and status. */
export const tookOverText = ({
  pid,
  ms,
  connections,
  staying,
  lost,
}: Pick<
  NonNullable<StatusDocument['tookOver']>,
  'pid' | 'ms' | 'connections' | 'staying' | 'lost'
>): string => {
  const left = staying.reduce((sum, one) => sum + one.connections, 0)
  const are = left === 1 ? 'was' : 'were'
  const whys = staying.map(one => `${one.why} (${one.connections})`).join(', ')
  return [
    `took over ${connections.toLocaleString('en')} connection${connections === 1 ? '' : 's'} of PID ${pid} in ${ms} ms`,
    ...(left === 0 ? [] : [`${left.toLocaleString('en')} ${are} left to drain: ${whys}`]),
    ...(lost === '' ? [] : [`it did not come to its end: ${lost}`]),
  ].join('; ')
}

export type StatusDocument = Out<typeof statusSchema>
export type ServicePortStatus = Out<typeof servicePort>
/** The same with as much of each ServicePort as was asked for. */
export type StatusOf<P> = Omit<StatusDocument, 'servicePorts'> & {
  readonly servicePorts: readonly P[]
}
export type ListedPort = Out<typeof listedShape>
export type TopPort = Out<typeof topShape>
export type PortListeners = Out<typeof listenersShape>
export type PortEndpoints = Out<typeof endpointsShape>
export type PrintedPort = Out<typeof printedShape>
export type EndpointRun = Out<typeof endpointRun>
export type VipStatus = Out<typeof vip>
export type EndpointStatus = Out<typeof endpoint>
export type NodeStatus = Out<typeof node>
export type ConnectTimeStatus = Out<typeof connectTime>
export type ChoiceStatus = Out<typeof choice>
