import { ipFamilies } from '../util/ip.ts'
import type { HealthReport } from './health.ts'

/** Go's zero time, which kube-proxy prints for what has never been. */
const never = '0001-01-01T00:00:00Z'

/** As Go's RFC3339Nano prints it, in UTC: a fraction of a second without zeros at its end. */
export const timeText = (epochMs: number | undefined): string =>
  epochMs === undefined ? never : new Date(epochMs).toISOString().replace(/\.?0*Z$/, 'Z')

export interface Verdict {
  readonly report: HealthReport
  readonly probe: 'healthz' | 'livez'
  /** Whether the answer is 200. */
  readonly good: boolean
  /** Epoch milliseconds. */
  readonly now: number
  /** Said in `/healthz` only. */
  readonly nodeEligible: boolean | undefined
}

/**
 * What kube-proxy answers since 1.33. On 200 `lastUpdated` is the current time, as in
 * releases whose loop ran without changes too. A family that was never applied is left out.
 */
export const healthPayload = (verdict: Verdict): string => {
  const { report, probe, good, now, nodeEligible } = verdict
  const aspect = probe === 'healthz' ? 'healthy' : 'live'
  const status = Object.fromEntries(
    ipFamilies
      .map(name => [name, report.families[name]] as const)
      .filter(([, family]) => family.lastUpdated !== undefined || !family[aspect])
      .map(([name, family]) => [
        name,
        { lastUpdated: timeText(family.lastUpdated), healthy: family[aspect] },
      ]),
  )
  return JSON.stringify({
    lastUpdated: timeText(good ? now : report.lastUpdated),
    currentTime: timeText(now),
    ...(nodeEligible === undefined ? {} : { nodeEligible }),
    healthy: report[aspect],
    ...(Object.keys(status).length === 0 ? {} : { status }),
  })
}
