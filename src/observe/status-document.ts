import type { Placement } from '../capture/capture.ts'
import type { CaptureChoice } from '../capture/choose-capture.ts'
import type { ModeChoice } from '../mode/choose-mode.ts'
import type { Pause } from '../mode/pauses.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { privilegesText } from '../relay/privileges.ts'
import type { ListenerStats, RelayStats } from '../relay/relay.ts'
import type { SourceStatus } from '../source/source.ts'
import { forEachYielding } from '../util/yielding.ts'
import type { HealthReport } from './health.ts'
import {
  bindText,
  type CheckOf,
  endpointStatuses,
  unplaced,
  vipStatus,
} from './status-service-port.ts'
import type {
  ChoiceStatus,
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
  readonly pauses: readonly Pause[]
  /** What checks say of an endpoint (`ip:port`); undefined when it is not checked. */
  readonly checkOf: CheckOf
  readonly health: Pick<HealthReport, 'healthy' | 'reasons'>
  /** Undefined where no node matters. */
  readonly node?: NodeStatus | undefined
  /** In userspace mode. */
  readonly capture?: CaptureChoice | undefined
  readonly relay?: ChosenRelay | undefined
}

/** Characters in one page. */
const pageChars = 128 * 1024

/** All that went wrong but what clients did themselves (CC, CD, cD): see cause.ts. */
const notByClient = (failed: ListenerStats['counters']['failed']): number =>
  sum(Object.fromEntries(Object.entries(failed).filter(([cause]) => !/^c/i.test(cause))))

const sum = (tally: Readonly<Record<string, number>>): number =>
  Object.values(tally).reduce((total, count) => total + count, 0)

const pausedStatus = (
  { protocol }: ServicePort,
  pause: Pause | undefined,
): ServicePortStatus['paused'] => {
  if (pause === undefined || protocol !== 'TCP') return null
  const { since, until } = pause
  return { since: timeText(since), until: until === undefined ? null : timeText(until) }
}

const timeText = (epochMs: number): string => new Date(epochMs).toISOString()

const servicePortStatus = (
  servicePort: ServicePort,
  placement: Placement | undefined,
  listener: ListenerStats | undefined,
  pause: Pause | undefined,
  checkOf: CheckOf,
): ServicePortStatus => {
  const bound = new Map(listener?.binds.map(state => [bindText(state.bind), state]))
  const vips = placement?.vips ?? unplaced(servicePort)
  const counters = listener?.counters
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
    endpoints: endpointStatuses(servicePort, listener, checkOf),
    holdMs: servicePort.protocol === 'TCP' ? (servicePort.retry?.holdMs ?? 0) : 0,
    paused: pausedStatus(servicePort, pause),
    active: counters?.active ?? 0,
    accepted: counters?.accepted ?? 0,
    failed: notByClient(counters?.failed ?? {}),
    retries: counters?.dialRetries ?? 0,
    held: counters?.held ?? 0,
    holdRefused: counters?.holdRefused ?? 0,
    bytesToBackend: counters?.bytesToBackend ?? 0,
    bytesToClient: counters?.bytesToClient ?? 0,
    datagrams: (counters?.datagramsToBackend ?? 0) + (counters?.datagramsToClient ?? 0),
    lastError: listener?.lastError ?? '',
  }
}

const identity = ({ family, key }: ServicePort): string => `${family} ${key}`

type Entry = Parameters<typeof servicePortStatus>

/** What is known of ServicePorts, by where it is looked up. */
interface Known {
  readonly placements: ReadonlyMap<string, Placement>
  readonly listeners: ReadonlyMap<string, ListenerStats>
}

const placementsOf = (input: StatusInput): ReadonlyMap<string, Placement> =>
  new Map(input.placements.map(each => [identity(each.servicePort), each]))

/** Each ServicePort with what is known of it, in the order of the snapshots. */
function* entriesOf(
  { snapshots, pauses, checkOf }: StatusInput,
  { placements, listeners }: Known,
): Generator<Entry> {
  const paused = new Map(pauses.map(pause => [pause.name, pause]))
  for (const { servicePorts } of snapshots)
    for (const servicePort of servicePorts.values()) {
      const placement = placements.get(identity(servicePort))
      const listener = placement && listeners.get(placement.listenerId)
      yield [servicePort, placement, listener, paused.get(servicePort.name), checkOf]
    }
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
  const entries = entriesOf(input, { placements: placementsOf(input), listeners })
  return {
    ...headOf(input),
    servicePorts: Array.from(entries, entry => servicePortStatus(...entry)),
  }
}

/**
 * The same document as JSON, in pages. Between pages the event loop runs: 10 000
 * ServicePorts of 10 endpoints are 20 MB.
 */
export const writeStatus = async (input: StatusInput): Promise<Buffer[]> => {
  const listeners = new Map<string, ListenerStats>()
  await forEachYielding(input.stats.listeners, listener => {
    listeners.set(listener.id, listener)
  })
  const entries = entriesOf(input, { placements: placementsOf(input), listeners })
  const head = JSON.stringify(headOf(input))
  const pages: Buffer[] = []
  let page = `${head.slice(0, -1)},"servicePorts":[`
  let comma = ''
  await forEachYielding(entries, entry => {
    page += comma + JSON.stringify(servicePortStatus(...entry))
    comma = ','
    if (page.length < pageChars) return
    pages.push(Buffer.from(page))
    page = ''
  })
  pages.push(Buffer.from(`${page}]}\n`))
  return pages
}
