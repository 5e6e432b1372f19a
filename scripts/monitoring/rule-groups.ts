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

/** As package.json has it (npm's form): `git+https://git.example/name/usher.git`. */
interface Repository {
  readonly url: string
}

const { repository } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as { repository?: Repository }

/** A path in this repository as long as that has no public address. */
export const runbookUrl = (alert: string, at: Repository | undefined): string => {
  const path = `docs/troubleshooting.md#${alert.toLowerCase()}`
  if (at === undefined) return path
  const web = at.url.replace(/^git\+/, '').replace(/\.git$/, '')
  return `${web}/blob/main/${path}`
}

const ruleOf = (alert: Alert) => ({
  alert: alert.name,
  expr: alert.expr,
  ...(alert.for !== undefined && { for: alert.for }),
  labels: { severity: alert.severity },
  annotations: {
    summary: alert.summary,
    description: alert.description,
    runbook_url: runbookUrl(alert.name, repository),
  },
})

/** As Prometheus reads them from a file, and as a PrometheusRule has them. */
export const groups = [
  { name: 'usher', rules: alerts.map(ruleOf) },
  { name: 'usher-slo', rules: [...recordings, ...burnAlerts.map(ruleOf)] },
]
