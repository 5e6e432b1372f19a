import { format, resolveConfig } from 'prettier'
import { stringify } from 'yaml'
import { dashboard } from './dashboard.ts'
import { podMonitor, prometheusRule } from './objects.ts'
import { groups } from './rule-groups.ts'

const madeBy =
  '# Made by `npm run docs` from scripts/monitoring/: change it there. docs/operating.md explains it.\n'

const yaml = (value: object): string =>
  madeBy + stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

const texts: Readonly<Record<string, string>> = {
  'rules.yaml': yaml({ groups }),
  'prometheus-rule.yaml': yaml(prometheusRule),
  'pod-monitor.yaml': yaml(podMonitor),
  'dashboard.json': JSON.stringify(dashboard),
}

/** Helm's chart has its own, as a chart can't reach what is outside of it. */
const ofChart = new Set(['rules.yaml', 'pod-monitor.yaml', 'dashboard.json'])

const pathsOf = (name: string): readonly string[] => [
  `deploy/monitoring/${name}`,
  ...(ofChart.has(name) ? [`deploy/helm/usher/files/${name}`] : []),
]

/** What is made for deploy/, by path from the top. */
export const monitoringFiles = async (): Promise<
  readonly (readonly [string, string])[]
> =>
  Promise.all(
    Object.entries(texts).flatMap(([name, text]) =>
      pathsOf(name).map(async path => {
        const options = await resolveConfig(new URL(`../../${path}`, import.meta.url))
        return [path, await format(text, { ...options, filepath: path })] as const
      }),
    ),
  )
