import type { Readable } from 'node:stream'
import type { HealthReport } from './health.ts'
import type { Metrics } from './metrics.ts'
import type { Probe, ProbeCounts } from './probe-counts.ts'
import { writeMetrics } from './exposition.ts'
import { sliTable } from './metrics-table.ts'
import type { StatusQuery } from './status-document.ts'
import type { StatusDocument } from './status.ts'
import { ipFamilies } from '../util/ip.ts'

/** A stream goes on until it ends or its client leaves, and holds back what that one has not read. */
type Body = string | readonly Buffer[] | Readable

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: Body
  /** With an `ETag` a client that has this body already is told so. */
  readonly headers?: Readonly<Record<string, string>>
  /** Called once it has been sent, or could not be. */
  readonly sent?: () => void
}

export interface Route {
  /** It does something: only POST, and not for a page in a browser. */
  readonly posted?: true
  /**
   * Bytes of a body at most, which `answer` is given. Without it none is read, and requests at
   * the same time have one answer.
   */
  readonly mostBody?: number
  /**
   * What `answer` is given of that which follows the `?` of a request. Requests that have it in
   * common, or come without a `?`, have one answer at the same time.
   */
  readonly query?: (text: string) => string
  /** `client`: its `ip:port`, '' at a socket of the file system; the first, where several have one answer. */
  readonly answer: (given: string, client: string) => Answer | Promise<Answer>
  /**
   * Answered whatever the Host header says: probes may send any. The other routes show more
   * than a web page in a browser may see; see `isHostAllowed`.
   */
  readonly anyHost?: true
  /**
   * Only clients on this host are answered: who talks to whom is not for all who may scrape metrics.
   * `kubectl port-forward` is one of them.
   */
  readonly onlyThisHost?: true
  /** A page of another site is refused, though it could not read the answer: it takes a place. */
  readonly notForOtherSites?: true
  /** A part of another page, which nobody asks for by name. */
  readonly unlisted?: true
}

/** By path. */
export type Routes = ReadonlyMap<string, Route>

const text = 'text/plain; charset=utf-8'
const json = 'application/json'

const ok = (contentType: string, body: Body): Answer => ({
  status: 200,
  contentType,
  body,
})

export const plain = (status: number, line: string): Answer => ({
  status,
  contentType: text,
  body: `${line}\n`,
})

export interface MetricsRoutesExtras {
  /** For `/proxyMode`: what runs; userspace by default. */
  readonly mode?: () => string
  /** Counts `/healthz`, and adds `/metrics/slis`. */
  readonly probes?: ProbeCounts
  /** The configuration in effect, as v1alpha1 with kind and apiVersion; adds `/configz`. */
  readonly config?: () => object
  /** Asks for the end; adds `/quitquitquit`. */
  readonly quit?: () => void
}

const slis = (metrics: Pick<Metrics, 'contentType'>, probes: ProbeCounts): Route => ({
  answer: async () => ok(metrics.contentType, await writeMetrics(sliTable, probes)),
})

/** Under its API group, since one process may have several configurations. */
const configz = (config: () => object): Route => ({
  answer: () => ok(json, JSON.stringify({ 'kubeproxy.config.k8s.io': config() })),
})

/** The caller is answered first: the end may come at once. */
const quitRoute = (quit: () => void): Route => ({
  posted: true,
  answer: () => ({ ...plain(200, 'stopping'), sent: quit }),
})

/** The document, or better its pages, because that of 10 000 ServicePorts takes long to make. */
type StatusOf = (query: StatusQuery) => StatusDocument | Promise<readonly Buffer[]>

/**
 * `/status`. With `?service=default/web:http` it is of that ServicePort, with `?fields=servicePort,vips`
 * it has only those of each, with `?alike` endpoints that are alike come together.
 */
export const statusRoute = (status: StatusOf): Route => ({
  query: asked => {
    const given = new URLSearchParams(asked)
    const [service, fields] = ['service', 'fields'].map(name => given.get(name) ?? '')
    return JSON.stringify([service, fields, given.has('alike')])
  },
  answer: async asked => {
    const [service, fields, joinsAlike] = JSON.parse(asked) as [string, string, boolean]
    const now = await status({
      service: service || undefined,
      fields: fields === '' ? undefined : fields.split(','),
      joinsAlike,
    })
    return ok(json, 'version' in now ? `${JSON.stringify(now)}\n` : now)
  },
})

/** The metrics server, with the paths kube-proxy has on 10249, and `/status`. */
export const metricsRoutes = (
  metrics: Pick<Metrics, 'contentType' | 'scrape'>,
  status: StatusOf,
  { mode = () => 'userspace', probes, config, quit }: MetricsRoutesExtras = {},
): Routes =>
  new Map<string, Route>([
    ['/metrics', { answer: async () => ok(metrics.contentType, await metrics.scrape()) }],
    ...(probes ? [['/metrics/slis', slis(metrics, probes)] as const] : []),
    ['/proxyMode', { answer: () => ok(text, mode()) }],
    [
      '/healthz',
      {
        anyHost: true,
        answer: () => {
          probes?.answered({ check: 'ping', path: 'healthz' }, 200)
          return ok(text, 'ok')
        },
      },
    ],
    ...(config ? [['/configz', configz(config)] as const] : []),
    ['/status', statusRoute(status)],
    ...(quit ? [['/quitquitquit', quitRoute(quit)] as const] : []),
  ])

export interface HealthRoutesExtras {
  readonly probes?: ProbeCounts
  /** Epoch milliseconds; Date.now. */
  readonly epoch?: () => number
}

/**
 * The health server, as kube-proxy's on 10256: `/livez` asks whether this process works,
 * `/healthz` also whether load balancers should send traffic to this node (KEP-3836): it
 * serves, and `nodeEligible` (the Node is there to stay).
 *
 * Since 1.33 `lastUpdated` of a 200 is the current time, as in releases whose loop ran without
 * changes too. A family that was never applied is left out.
 */
export const healthRoutes = (
  health: () => HealthReport,
  nodeEligible: () => boolean,
  { probes, epoch = Date.now }: HealthRoutesExtras = {},
): Routes => {
  const answer = (probe: Probe['path'], eligible: boolean | undefined): Answer => {
    const report = health()
    const aspect = probe === 'healthz' ? 'healthy' : 'live'
    const isGood = report[aspect] && eligible !== false
    const status = isGood ? 200 : 503
    probes?.answered({ check: 'proxier', path: probe }, status)
    const now = epoch()
    const families = ipFamilies.flatMap(name => {
      const { lastUpdated, [aspect]: healthy } = report.families[name]
      const isKnown = lastUpdated !== undefined || !healthy
      return isKnown ? [[name, { lastUpdated: timeText(lastUpdated), healthy }]] : []
    })
    const body = JSON.stringify({
      lastUpdated: timeText(isGood ? now : report.lastUpdated),
      currentTime: timeText(now),
      ...(eligible !== undefined && { nodeEligible: eligible }),
      healthy: report[aspect],
      ...(families.length > 0 && { status: Object.fromEntries(families) as object }),
    })
    return { status, contentType: json, body }
  }
  return new Map<string, Route>([
    ['/healthz', { anyHost: true, answer: () => answer('healthz', nodeEligible()) }],
    ['/livez', { anyHost: true, answer: () => answer('livez', undefined) }],
  ])
}

/** Go's zero time, which kube-proxy prints for what has never been. */
const never = '0001-01-01T00:00:00Z'

/** As Go's RFC3339Nano prints it, in UTC: a fraction of a second without zeros at its end. */
export const timeText = (epochMs: number | undefined): string =>
  epochMs === undefined ? never : new Date(epochMs).toISOString().replace(/\.?0*Z$/, 'Z')
