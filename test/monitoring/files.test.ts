import { readFileSync } from 'node:fs'
import t from 'tap'
import { monitoringFiles } from '../../scripts/monitoring/files.ts'
import { podMonitor } from '../../scripts/monitoring/objects.ts'
import { allAlerts, runbookUrl } from '../../scripts/monitoring/rule-groups.ts'
import { anchorsOf } from '../support/anchors.ts'
import { build, noKustomize, parseYaml, readObjects, top } from '../support/deploy.ts'

const read = (path: string): string => readFileSync(`${top}${path}`, 'utf8')

t.test('deploy/monitoring is what the tables say', async t => {
  for (const [path, text] of await monitoringFiles())
    t.equal(read(path), text, `${path}: if not, run: npm run docs`)
})

t.test(
  'the PodMonitor selects the pods of the DaemonSet, and leads to their port',
  async t => {
    const [daemonSet] = readObjects('deploy/kubernetes/base/daemon-set.yaml')
    const { metadata, spec } = daemonSet?.spec.template ?? {}
    t.match(metadata?.labels, podMonitor.spec.selector.matchLabels)
    const [usher] = spec?.containers ?? []
    const [scraped] = podMonitor.spec.podMetricsEndpoints
    t.equal(usher?.name, 'usher', 'alerts tell targets by it')
    const labels = (ip: string): Labels => ({
      __address__: ip,
      __meta_kubernetes_pod_ip: ip,
      __meta_kubernetes_pod_container_name: 'usher',
    })
    const rules = (scraped?.relabelings ?? []) as readonly Relabeling[]
    const [config] = readObjects('deploy/kubernetes/base/config.yaml') as unknown as [
      { readonly metricsBindAddress: string },
    ]
    const [, port] = config.metricsBindAddress.split(':')
    t.equal(relabelled(labels('192.0.2.1'), rules)?.['__address__'], `192.0.2.1:${port}`)
    t.equal(
      relabelled(labels('2001:db8::1'), rules)?.['__address__'],
      `[2001:db8::1]:${port}`,
    )
    const other = { ...labels('192.0.2.1'), __meta_kubernetes_pod_container_name: 'mesh' }
    t.equal(relabelled(other, rules), undefined, 'nor that of another container')
  },
)

type Labels = Readonly<Record<string, string>>

interface Relabeling {
  readonly sourceLabels?: readonly string[]
  readonly regex?: string
  readonly targetLabel?: string
  readonly replacement?: string
  readonly action?: string
}

/** As Prometheus does it, whose expressions are anchored; undefined: no target. */
const relabelled = (labels: Labels, rules: readonly Relabeling[]): Labels | undefined => {
  const now = new Map(Object.entries(labels))
  for (const { sourceLabels = [], regex = '(.*)', action, ...to } of rules) {
    const value = sourceLabels.map(name => now.get(name) ?? '').join(';')
    const match = new RegExp(`^(?:${regex})$`).exec(value)
    if (action === 'keep' && match === null) return undefined
    if (to.targetLabel === undefined || match === null) continue
    const text = (to.replacement ?? '$1').replaceAll('$1', match[1] ?? '')
    now.set(to.targetLabel, text)
  }
  return Object.fromEntries(now)
}

t.test('all of it is applied together', { skip: noKustomize }, async t => {
  const { all } = await build('deploy/monitoring')
  for (const kind of ['PodMonitor', 'PrometheusRule', 'ConfigMap'])
    t.equal(all.the(kind).metadata.namespace, 'kube-system')
  const { data = {} } = all.configMap('usher-dashboard') ?? {}
  t.strictSame(Object.keys(data), ['dashboard.json'])
})

t.test('each alert has its heading in the page, and is what it says', async t => {
  const page = read('docs/troubleshooting.md')
  const [, part = ''] = page.split('\n## Alerts\n')
  const said = Array.from(
    (part.split('\n## ')[0] ?? '').matchAll(/^### (\w+)\n\n_([^_]*)_/gm),
    ([, name, when]) => [name, when],
  )
  t.strictSame(
    said,
    allAlerts.map(({ name, severity, for: pending }) => [
      name,
      pending === undefined ? `${severity}, at once.` : `${severity}, after ${pending}.`,
    ]),
  )
})

t.test('the runbook of each alert is a heading that is there', async t => {
  const [{ groups }] = parseYaml(read('deploy/monitoring/rules.yaml'), 'rules') as [
    { groups: { rules: { alert?: string; annotations?: { runbook_url: string } }[] }[] },
  ]
  const rules = groups.flatMap(group => group.rules).filter(({ alert }) => alert)
  t.equal(rules.length, allAlerts.length)
  for (const { alert = '', annotations } of rules) {
    const [, page = '', anchor = ''] =
      /(docs\/\S+\.md)#(.+)$/.exec(annotations?.runbook_url ?? '') ?? []
    t.ok(anchorsOf(read(page)).has(anchor), `${alert}: ${annotations?.runbook_url}`)
  }
})

t.test('it is at the public address of the repository, once there is one', async t => {
  const { repository } = JSON.parse(read('package.json')) as {
    repository?: { url: string }
  }
  const urls = read('deploy/monitoring/rules.yaml').match(/(?<=runbook_url: ).*/g) ?? []
  const isAbsolute = (url: string): boolean => url.startsWith('https://')
  t.equal(urls.every(isAbsolute), repository !== undefined)
  const example = { url: 'git+https://git.example/name/usher.git' }
  t.equal(
    runbookUrl('UsherDown', example),
    'https://git.example/name/usher/blob/main/docs/troubleshooting.md#usherdown',
  )
})
