import type { IpFamily } from '../util/ip.ts'
import type { FamilyHealth, HealthReport } from './health.ts'
import type { Metrics } from './metrics.ts'
import type { StatusDocument } from './status.ts'

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: string | readonly Buffer[]
}

export interface Route {
  readonly answer: () => Answer | Promise<Answer>
  /** Shows more than a web page in somebody's browser may see; see host-check.ts. */
  readonly local?: true
}

/** By path. */
export type Routes = ReadonlyMap<string, Route>

const text = 'text/plain; charset=utf-8'
const json = 'application/json'

/** The metrics server, with the paths kube-proxy has on 10249, and `/status`. */
export const metricsRoutes = (
  metrics: Pick<Metrics, 'contentType' | 'scrape'>,
  status: () => StatusDocument,
): Routes =>
  new Map<string, Route>([
    [
      '/metrics',
      {
        answer: async () => ({
          status: 200,
          contentType: metrics.contentType,
          body: await metrics.scrape(),
        }),
      },
    ],
    [
      '/proxyMode',
      { answer: () => ({ status: 200, contentType: text, body: 'userspace' }) },
    ],
    ['/healthz', { answer: () => ({ status: 200, contentType: text, body: 'ok' }) }],
    [
      '/status',
      {
        local: true,
        answer: () => ({
          status: 200,
          contentType: json,
          body: `${JSON.stringify(status())}\n`,
        }),
      },
    ],
  ])

/** Go's zero time, which kube-proxy prints for what has never been. */
const never = '0001-01-01T00:00:00Z'

const timeText = (epochMs: number | undefined): string =>
  epochMs === undefined ? never : new Date(epochMs).toISOString()

const familyPayload = ({ lastUpdated, healthy }: FamilyHealth) => ({
  lastUpdated: timeText(lastUpdated),
  healthy,
})

/** What kube-proxy answers since 1.33: a good `lastUpdated` is the current time. */
const healthPayload = (
  { lastUpdated, healthy, families }: HealthReport,
  good: boolean,
  now: number,
  nodeEligible: boolean | undefined,
): string => {
  const status: Record<IpFamily, object> = {
    IPv4: familyPayload(families.IPv4),
    IPv6: familyPayload(families.IPv6),
  }
  return JSON.stringify({
    lastUpdated: timeText(good ? now : lastUpdated),
    currentTime: timeText(now),
    ...(nodeEligible === undefined ? {} : { nodeEligible }),
    healthy,
    status,
  })
}

/**
 * The health server, as kube-proxy's on 10256: `/livez` asks whether this process works,
 * `/healthz` also whether load balancers should send traffic to this node (KEP-3836).
 */
export const healthRoutes = (
  health: () => HealthReport,
  nodeEligible: () => boolean,
  epoch: () => number = Date.now,
): Routes => {
  const answer = (eligible: boolean | undefined): Answer => {
    const report = health()
    const good = report.healthy && eligible !== false
    return {
      status: good ? 200 : 503,
      contentType: json,
      body: healthPayload(report, good, epoch(), eligible),
    }
  }
  return new Map<string, Route>([
    ['/healthz', { answer: () => answer(nodeEligible()) }],
    ['/livez', { answer: () => answer(undefined) }],
  ])
}
