import { readFileSync } from 'node:fs'
import { type Alert, alerts } from './alerts.ts'
import { burnAlerts, recordings } from './slo.ts'

export const allAlerts: readonly Alert[] = [...alerts, ...burnAlerts]

export const recordedNames: ReadonlySet<string> = new Set(
  recordings.map(({ record }) => record),
)

/** All expressions of the rules. */
export const ruleExpressions: readonly string[] = [...recordings, ...allAlerts].map(
  ({ expr }) => expr,
)

const { homepage = '' } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { homepage?: string }

/** Relative as long as the project has no home on the web. */
const runbook = ({ name }: Alert): string =>
  `${homepage === '' ? '' : `${homepage.replace(/\/$/, '')}/`}docs/troubleshooting.md#${name.toLowerCase()}`

const ruleOf = (alert: Alert) => ({
  alert: alert.name,
  expr: alert.expr,
  ...(alert.for !== undefined && { for: alert.for }),
  labels: { severity: alert.severity },
  annotations: {
    summary: alert.summary,
    description: alert.description,
    runbook_url: runbook(alert),
  },
})

/** As Prometheus reads them from a file, and as a PrometheusRule has them. */
export const groups = [
  { name: 'usher', rules: alerts.map(ruleOf) },
  { name: 'usher-slo', rules: [...recordings, ...burnAlerts.map(ruleOf)] },
]
