import { readFileSync } from 'node:fs'
import t from 'tap'
import { monitoringFiles } from '../../scripts/monitoring/files.ts'
import { podMonitor } from '../../scripts/monitoring/objects.ts'
import { allAlerts } from '../../scripts/monitoring/rule-groups.ts'
import { build, noKustomize, readObjects, top } from '../support/deploy.ts'

const read = (path: string): string => readFileSync(`${top}${path}`, 'utf8')

t.test('deploy/monitoring is what the tables say', async t => {
  for (const [path, text] of await monitoringFiles())
    t.equal(read(path), text, `${path}: if not, run: npm run docs`)
})

t.test('the PodMonitor selects the pods of the DaemonSet, and their port', async t => {
  const [daemonSet] = readObjects('deploy/kubernetes/base/daemon-set.yaml')
  const { metadata, spec } = daemonSet?.spec.template ?? {}
  t.match(metadata?.labels, podMonitor.spec.selector.matchLabels)
  const [usher] = spec?.containers ?? []
  const [scraped] = podMonitor.spec.podMetricsEndpoints
  t.match(usher?.ports.at(-1), { name: scraped?.port, containerPort: 10249 })
  t.equal(usher?.name, 'usher', 'alerts tell targets by it')
})

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
