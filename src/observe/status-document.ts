import type { Placement, VipPlacement } from '../capture/capture.ts'
import type { Endpoint, Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { Bind, BindState, ListenerStats, RelayStats } from '../relay/relay.ts'
import type { SourceStatus } from '../source/source.ts'
import { joinHostPort } from '../util/ip.ts'
import type { HealthReport } from './health.ts'
import type {
  EndpointStatus,
  ServicePortStatus,
  StatusDocument,
  VipStatus,
} from './status.ts'

export interface StatusInput {
  readonly version: string
  /** Epoch milliseconds. */
  readonly startedAt: number
  readonly draining: boolean
  readonly snapshots: readonly Snapshot[]
  readonly placements: readonly Placement[]
  readonly stats: RelayStats
  readonly source: SourceStatus
  readonly problems: readonly Problem[]
  readonly health: Pick<HealthReport, 'healthy' | 'reasons'>
}

type VipState = Pick<VipStatus, 'state' | 'reason'>

const bindKey = ({ address, port }: Bind): string => joinHostPort(address, port)

const notApplied: VipState = { state: 'binding', reason: 'not applied yet' }

/** One state for a VIP that may be served by several binds: the worst of them. */
const stateOf = (states: readonly (BindState | undefined)[]): VipState => {
  for (const bound of states)
    if (bound?.state === 'failed') return { state: 'failed', reason: bound.error }
  if (states.every(bound => bound?.state === 'listening'))
    return { state: 'listening', reason: '' }
  if (states.includes(undefined)) return notApplied
  for (const bound of states)
    if (bound?.state === 'closed') return { state: 'refusing', reason: bound.reason }
  return { state: 'binding', reason: '' }
}

const vipStatus = (
  { vip, capture, binds, reason }: VipPlacement,
  bound: ReadonlyMap<string, BindState>,
): VipStatus => {
  const captured = capture !== 'not captured' && binds.length > 0
  const now: VipState = captured
    ? stateOf(binds.map(bind => bound.get(bindKey(bind))))
    : { state: 'not captured', reason: '' }
  return {
    kind: vip.kind,
    vip: joinHostPort(vip.address, vip.port),
    capture,
    listen: captured ? binds.map(bindKey).join(', ') : '',
    state: now.state,
    reason: [now.reason, reason].filter(text => text !== '').join('; '),
  }
}

/** A ServicePort that is newer than the last sync. */
const unplaced = ({ vips }: ServicePort): VipPlacement[] =>
  vips.map(vip => ({
    vip,
    capture: 'not captured',
    binds: [],
    reason: 'not applied yet',
  }))

const endpointState = ({
  ready,
  serving,
  terminating,
}: Endpoint): EndpointStatus['state'] =>
  ready ? 'ready' : serving && terminating ? 'terminating' : 'not ready'

const endpointStatuses = (
  { endpoints, reachable }: ServicePort,
  listener: ListenerStats | undefined,
): EndpointStatus[] => {
  const living = new Map(listener?.endpoints.map(stats => [stats.key, stats]))
  const chosen = new Set(reachable.map(bindKey))
  return endpoints.map(endpoint => {
    const key = bindKey(endpoint)
    const stats = living.get(key)
    return {
      endpoint: key,
      state: endpointState(endpoint),
      eligible: chosen.has(key),
      active: stats?.active ?? 0,
      failures: stats?.failures ?? 0,
    }
  })
}

/** All that went wrong but what clients did themselves (CC, CD, cD): see cause.ts. */
const notByClient = (failed: ListenerStats['counters']['failed']): number =>
  sum(Object.fromEntries(Object.entries(failed).filter(([cause]) => !/^c/i.test(cause))))

const sum = (tally: Readonly<Record<string, number>>): number =>
  Object.values(tally).reduce((total, count) => total + count, 0)

const servicePortStatus = (
  servicePort: ServicePort,
  placement: Placement | undefined,
  listener: ListenerStats | undefined,
): ServicePortStatus => {
  const bound = new Map(listener?.binds.map(state => [bindKey(state.bind), state]))
  const vips = placement?.vips ?? unplaced(servicePort)
  const counters = listener?.counters
  return {
    servicePort: servicePort.name,
    protocol: servicePort.protocol,
    family: servicePort.family,
    affinityMs: servicePort.affinityMs,
    vips: vips.map(vip => vipStatus(vip, bound)),
    endpoints: endpointStatuses(servicePort, listener),
    active: counters?.active ?? 0,
    accepted: counters?.accepted ?? 0,
    failed: notByClient(counters?.failed ?? {}),
    retries: counters?.dialRetries ?? 0,
    bytesToBackend: counters?.bytesToBackend ?? 0,
    bytesToClient: counters?.bytesToClient ?? 0,
    datagrams: (counters?.datagramsToBackend ?? 0) + (counters?.datagramsToClient ?? 0),
    lastError: listener?.lastError ?? '',
  }
}

const identity = ({ family, key }: ServicePort): string => `${family} ${key}`

/** Everything there is to know now, joined; in the order of the snapshots. */
export const buildStatusDocument = (input: StatusInput): StatusDocument => {
  const { stats, health } = input
  const placements = new Map(
    input.placements.map(placement => [identity(placement.servicePort), placement]),
  )
  const listeners = new Map(stats.listeners.map(listener => [listener.id, listener]))
  const servicePorts = input.snapshots.flatMap(snapshot =>
    [...snapshot.servicePorts.values()].map(servicePort => {
      const placement = placements.get(identity(servicePort))
      const listener = placement && listeners.get(placement.listenerId)
      return servicePortStatus(servicePort, placement, listener)
    }),
  )
  return {
    version: input.version,
    mode: 'userspace',
    startedAt: new Date(input.startedAt).toISOString(),
    healthy: health.healthy,
    unhealthy: health.reasons,
    draining: input.draining,
    source: input.source,
    problems: input.problems,
    fds: stats.fds,
    acceptPaused: stats.acceptPaused,
    servicePorts,
  }
}
