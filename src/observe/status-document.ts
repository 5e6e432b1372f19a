import type { CaptureChoice } from '../capture/capture.ts'
import type { ModeChoice } from '../mode/fallback-mode.ts'
import type { Problem } from '../model/snapshot.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { privilegesText } from '../relay/privileges.ts'
import type { RelayStats } from '../relay/relay.ts'
import type { SourceStatus } from '../source/source.ts'
import type { HealthReport } from './health.ts'
import { jsonPages } from './json-pages.ts'
import {
  isPortField,
  portFields,
  portStatus,
  portText,
  portViews,
  portViewsInTurn,
  timeText,
  type ViewInput,
} from './port-view.ts'
import type {
  ChoiceStatus,
  ConnectTimeStatus,
  NodeStatus,
  ServicePortStatus,
  StatusDocument,
} from './status.ts'

export interface StatusInput extends ViewInput {
  readonly version: string
  /** Epoch milliseconds. */
  readonly startedAt: number
  readonly draining: boolean
  readonly tookOver?: StatusDocument['tookOver'] | undefined
  readonly mode: ModeChoice
  readonly stats: RelayStats
  readonly source: SourceStatus
  readonly problems: readonly Problem[]
  readonly health: Pick<HealthReport, 'healthy' | 'reasons' | 'lastUpdated'>
  /** Undefined where no node matters. */
  readonly node?: NodeStatus | undefined
  /** Where there is a relay. */
  readonly capture?: CaptureChoice | undefined
  readonly relay?: ChosenRelay | undefined
  /** Where it is asked for. */
  readonly connectTime?: ConnectTimeStatus | undefined
}

const headOf = (input: StatusInput): Omit<StatusDocument, 'servicePorts'> => ({
  version: input.version,
  // At the beginning, of which `usher cleanup` reads as much as it needs.
  draining: input.draining,
  mode: input.mode.name,
  modeChoice: { ...choiceStatus(input.mode), askedBy: input.mode.by },
  startedAt: timeText(input.startedAt),
  tookOver: input.tookOver ?? null,
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
export const buildStatusDocument = (input: StatusInput): StatusDocument => ({
  ...headOf(input),
  servicePorts: Array.from(
    portViews(input),
    view => portStatus(view, allFields) as ServicePortStatus,
  ),
})

const allFields = Object.keys(portFields).filter(isPortField)

/** What of the status is asked for. */
export interface StatusQuery {
  /** Of one ServicePort, by name: `default/web:http`; undefined: of all. */
  readonly service: string | undefined
  /** What of each; undefined: all. */
  readonly fields: readonly string[] | undefined
  /** Endpoints that follow each other and are alike but for their name are told together. */
  readonly joinsAlike: boolean
}

/**
 * The same document as JSON, in pages. Between pages the event loop runs: 10 000 ServicePorts of
 * 10 endpoints are 23 MB, and without endpoints a fifth of it.
 */
export const writeStatus = async (
  input: StatusInput,
  { service, fields: asked, joinsAlike }: StatusQuery,
): Promise<Buffer[]> => {
  // A name once, however often it was asked for: else a short question has an answer of gigabytes.
  const fields = asked === undefined ? allFields : [...new Set(asked)].filter(isPortField)
  const views = await portViewsInTurn(input)
  const made = (function* () {
    for (const view of views)
      if (service === undefined || view.servicePort.name === service)
        yield portText(view, fields, joinsAlike)
  })()
  return jsonPages(headOf(input), 'servicePorts', made)
}
