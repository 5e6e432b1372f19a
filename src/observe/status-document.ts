import type { CaptureChoice, Placement, VipPlacement } from '../capture/capture.ts'
import type { ModeChoice } from '../mode/fallback-mode.ts'
import type { StandingOrder } from '../mode/operator-orders.ts'
import { unservedPlacement } from '../mode/placements.ts'
import { loopbackKey } from '../mode/hybrid-mode.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { privilegesText } from '../relay/privileges.ts'
import type { ListenerStats, RelayStats } from '../relay/relay.ts'
import { optionsInForce } from '../source/routes/route-fields.ts'
import type { SourceStatus } from '../source/source.ts'
import { forEachYielding } from '../util/list-diff.ts'
import type { HealthReport } from './health.ts'
import { joinListeners } from './joined-listeners.ts'
import { jsonPages } from './json-pages.ts'
import {
  bindText,
  type CheckOf,
  countEndpoints,
  endpointStatuses,
  endpointsText,
  timesOf,
  timeText,
  vipStatus,
} from './status-service-port.ts'
import type {
  ChoiceStatus,
  ConnectTimeStatus,
  NodeStatus,
  ServicePortStatus,
  StatusDocument,
} from './status.ts'

export interface StatusInput {
  readonly version: string
  /** Epoch milliseconds. */
  readonly startedAt: number
  readonly draining: boolean
  readonly mode: ModeChoice
  readonly snapshots: readonly Snapshot[]
  readonly placements: readonly Placement[]
  readonly stats: RelayStats
  readonly source: SourceStatus
  readonly problems: readonly Problem[]
  /** What operators have ordered. */
  readonly orders: readonly StandingOrder[]
  /** What checks say of an endpoint (`ip:port`); undefined when it is not checked. */
  readonly checkOf: CheckOf
  readonly health: Pick<HealthReport, 'healthy' | 'reasons' | 'lastUpdated'>
  /** Undefined where no node matters. */
  readonly node?: NodeStatus | undefined
  /** Where there is a relay. */
  readonly capture?: CaptureChoice | undefined
  readonly relay?: ChosenRelay | undefined
  /** Where it is asked for. */
  readonly connectTime?: ConnectTimeStatus | undefined
}

/** All that went wrong but what clients did themselves (CC, CD, cD): see cause.ts. */
export const notByClient = (
  failed: ListenerStats['counters']['failed'] = {},
): Record<string, number> =>
  Object.fromEntries(
    Object.entries(failed).filter(([cause, times]) => times > 0 && !/^c/i.test(cause)),
  )

const sum = (tally: Readonly<Record<string, number>>): number =>
  Object.values(tally).reduce((total, count) => total + count, 0)

const pausedStatus = (
  { protocol }: ServicePort,
  orders: readonly StandingOrder[],
): ServicePortStatus['paused'] => {
  const pause = orders.find(({ kind }) => kind === 'pause')
  return pause === undefined || protocol !== 'TCP' ? null : timesOf(pause)
}

/** A ServicePort with what is known of it. */
export type Entry = readonly [
  servicePort: ServicePort,
  vips: readonly VipPlacement[],
  listener: ListenerStats | undefined,
  orders: readonly StandingOrder[],
  checkOf: CheckOf,
]

/** All but its endpoints one by one. */
const countedStatus = ([servicePort, vips, listener, orders]: Entry): Omit<
  ServicePortStatus,
  'endpoints'
> => {
  const bound = new Map(listener?.binds.map(state => [bindText(state.bind), state]))
  const counters = listener?.counters
  const failedBy = notByClient(counters?.failed)
  return {
    servicePort: servicePort.name,
    protocol: servicePort.protocol,
    family: servicePort.family,
    affinityMs: servicePort.affinityMs,
    verdicts: {
      internal: servicePort.internal.verdict,
      external: servicePort.external.verdict,
      node: servicePort.externalFromNode.verdict,
    },
    sourceRanges: servicePort.sourceRanges ?? null,
    vips: vips.map(vip => vipStatus(vip, bound)),
    endpointCounts: countEndpoints(servicePort, orders),
    options: optionsInForce(servicePort),
    holdMs: servicePort.protocol === 'TCP' ? (servicePort.retry?.holdMs ?? 0) : 0,
    paused: pausedStatus(servicePort, orders),
    active: counters?.active ?? 0,
    accepted: counters?.accepted ?? 0,
    failed: sum(failedBy),
    failedBy,
    retries: counters?.dialRetries ?? 0,
    held: counters?.held ?? 0,
    holdRefused: counters?.holdRefused ?? 0,
    queued: counters?.queued ?? 0,
    bytesToBackend: counters?.bytesToBackend ?? 0,
    bytesToClient: counters?.bytesToClient ?? 0,
    datagrams: (counters?.datagramsToBackend ?? 0) + (counters?.datagramsToClient ?? 0),
    lastError: listener?.lastError ?? '',
  }
}

/** Each ServicePort with what is known of it, in the order of the snapshots. */
function* entriesOf(
  { snapshots, placements, orders, checkOf }: StatusInput,
  listeners: ReadonlyMap<string, ListenerStats>,
): Generator<Entry> {
  const ordered = byName(orders)
  const byKey = { IPv4: new Map<string, Placement>(), IPv6: new Map<string, Placement>() }
  for (const one of placements)
    byKey[one.servicePort.family].set(one.servicePort.key, one)
  for (const { servicePorts } of snapshots)
    for (const servicePort of servicePorts.values()) {
      const known = byKey[servicePort.family]
      const placed = keysOf(servicePort).flatMap(key => known.get(key) ?? [])
      const listener = joinListeners(
        placed.flatMap(({ listenerId }) => listeners.get(listenerId) ?? []),
      )
      const own = ordered.get(servicePort.name) ?? noOrders
      yield [servicePort, vipsOf(servicePort, placed), listener, own, checkOf]
    }
}

/** By which it may be placed. */
const keysOf = (servicePort: ServicePort): readonly string[] =>
  servicePort.vips.some(({ kind }) => kind === 'NodePort')
    ? [servicePort.key, loopbackKey(servicePort)]
    : [servicePort.key]

/** The same object as before where nothing has changed. */
const vipsOf = (
  servicePort: ServicePort,
  placed: readonly Placement[],
): readonly VipPlacement[] => {
  const [first, ...others] = placed
  // It is newer than the last sync.
  if (first === undefined) return unservedPlacement(servicePort, 'not applied yet').vips
  return others.length === 0 ? first.vips : placed.flatMap(({ vips }) => vips)
}

const noOrders: readonly StandingOrder[] = []

const byName = (
  orders: readonly StandingOrder[],
): ReadonlyMap<string, readonly StandingOrder[]> => {
  const found = new Map<string, StandingOrder[]>()
  for (const order of orders) {
    const own = found.get(order.name) ?? []
    own.push(order)
    found.set(order.name, own)
  }
  return found
}

const headOf = (input: StatusInput): Omit<StatusDocument, 'servicePorts'> => ({
  version: input.version,
  // At the beginning, of which `usher cleanup` reads as much as it needs.
  draining: input.draining,
  mode: input.mode.name,
  modeChoice: { ...choiceStatus(input.mode), askedBy: input.mode.by },
  startedAt: timeText(input.startedAt),
  healthy: input.health.healthy,
  unhealthy: input.health.reasons,
  node: input.node ?? null,
  source: input.source,
  capture: input.capture ? choiceStatus(input.capture) : null,
  relay: input.relay ? relayStatus(input.relay) : null,
  connectTime: input.connectTime ?? null,
  problems: input.problems,
  fds: input.stats.fds,
  acceptPaused: input.stats.acceptPaused,
})

const choiceStatus = ({ name, detail, passedOver }: ChoiceStatus): ChoiceStatus => ({
  name,
  detail,
  passedOver: passedOver.map(one => ({ name: one.name, detail: one.detail })),
})

const relayStatus = (relay: ChosenRelay): NonNullable<StatusDocument['relay']> => {
  const { workers, ownProcess } = relay
  return {
    ...choiceStatus(relay),
    workers,
    ownProcess: ownProcess
      ? {
          privileges: ownProcess.privileges ? privilegesText(ownProcess.privileges) : '',
          excess: ownProcess.excess,
        }
      : null,
  }
}

/** Everything there is to know now, joined; in the order of the snapshots. */
export const buildStatusDocument = (input: StatusInput): StatusDocument => {
  const listeners = new Map<string, ListenerStats>()
  for (const listener of input.stats.listeners) listeners.set(listener.id, listener)
  const entries = entriesOf(input, listeners)
  return {
    ...headOf(input),
    servicePorts: Array.from(entries, entry => {
      const [servicePort, , ...known] = entry
      return {
        ...countedStatus(entry),
        endpoints: endpointStatuses(servicePort, ...known),
      }
    }),
  }
}

/** What of the status is asked for. */
export interface StatusQuery {
  /** Of one ServicePort, by name: `default/web:http`; undefined: of all. */
  readonly service: string | undefined
  /** What of each; undefined: all. */
  readonly fields: readonly string[] | undefined
}

/**
 * The same document as JSON, in pages. Between pages the event loop runs: 10 000 ServicePorts of
 * 10 endpoints are 23 MB, and without endpoints a fifth of it.
 */
export const writeStatus = async (
  input: StatusInput,
  { service, fields }: StatusQuery,
): Promise<Buffer[]> => {
  const entries = await entriesInTurn(input)
  const made = (function* () {
    for (const entry of entries)
      if (service === undefined || entry[0].name === service) yield textOf(entry, fields)
  })()
  return jsonPages(headOf(input), 'servicePorts', made)
}

const textOf = (entry: Entry, fields: StatusQuery['fields']): string => {
  const [servicePort, , ...known] = entry
  const all: Readonly<Record<string, unknown>> = countedStatus(entry)
  const counted: Record<string, unknown> = {}
  for (const field of fields ?? []) counted[field] = all[field]
  const text = JSON.stringify(fields === undefined ? all : counted)
  if (fields?.includes('endpoints') === false) return text
  const comma = text === '{}' ? '' : ','
  return `${text.slice(0, -1)}${comma}"endpoints":${endpointsText(servicePort, ...known)}}`
}

/** To be gone through at the pace of `forEachYielding`. */
export const entriesInTurn = async (input: StatusInput): Promise<Iterable<Entry>> => {
  const listeners = new Map<string, ListenerStats>()
  await forEachYielding(input.stats.listeners, listener => {
    listeners.set(listener.id, listener)
  })
  return entriesOf(input, listeners)
}
