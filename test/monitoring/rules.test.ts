import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { dashboardExpressions } from '../../scripts/monitoring/panels.ts'
import { allAlerts } from '../../scripts/monitoring/rule-groups.ts'
import { top } from '../support/deploy.ts'
import { missingPrograms } from '../support/installed.ts'
import { type RuleCase, ruleCases } from './rule-cases.ts'

const skip = missingPrograms('promtool') || false
const rules = `${top}deploy/monitoring/rules.yaml`

const promtool = (...args: string[]) => promisify(execFile)('promtool', args)

/** A file for promtool; JSON is YAML. */
const written = async (t: Test, content: object | string): Promise<string> => {
  const path = join(t.testdir({}), 'for-promtool.yaml')
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

t.test('promtool takes the rules', { skip }, async t => {
  const { stdout } = await promtool('check', 'rules', rules)
  t.match(stdout, /SUCCESS: \d+ rules found/)
})

t.test('and each expression of the dashboard', { skip }, async t => {
  const shown = dashboardExpressions.map((expr, i) => ({
    record: `panel:expression:${i}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$\w+/g, '.+'),
  }))
  const path = await written(t, { groups: [{ name: 'dashboard', rules: shown }] })
  const { stdout } = await promtool('check', 'rules', path)
  t.match(stdout, `SUCCESS: ${shown.length} rules found`)
})

t.test('and the job of the page', { skip }, async t => {
  const page = await readFile(`${top}docs/operating.md`, 'utf8')
  const [, job = ''] = /```yaml\n(rule_files[^]*?)```/.exec(page) ?? []
  // Debian builds Prometheus without Kubernetes.
  const here = job
    .replace(/\[.*usher-rules.yaml\]/, `[${rules}]`)
    .replace(/kubernetes_sd_configs:\n.*\n.*\n/, 'static_configs: []\n')
  const path = await written(t, here)
  const { stdout } = await promtool('check', 'config', path)
  t.match(stdout, /SUCCESS: 1 rule files found[^]*SUCCESS: \d+ rules found/)
})

const testOf = ({ alert, what, series, fires = [], quiet = [] }: RuleCase) => {
  const expected = (minute: number, samples: readonly object[]) => ({
    eval_time: `${minute}m`,
    expr: `max(ALERTS{alertname="${alert}", alertstate="firing"})`,
    exp_samples: samples,
  })
  return {
    name: `${alert}: ${what}`,
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({
      series: name,
      values,
    })),
    promql_expr_test: [
      ...fires.map(minute => expected(minute, [{ labels: '{}', value: 1 }])),
      ...quiet.map(minute => expected(minute, [])),
    ],
  }
}

t.test('alerts fire when they should, and not else', { skip }, async t => {
  const file = {
    rule_files: [rules],
    evaluation_interval: '1m',
    tests: ruleCases.map(testOf),
  }
  const { stdout } = await promtool('test', 'rules', await written(t, file))
  t.match(stdout, 'SUCCESS')
})

t.test('each alert of more than one comparison is tried, both ways', async t => {
  const one = /^\w+(?:\{[^}]*\})? (?:==|>) \d+$/
  for (const { name, expr } of allAlerts) {
    if (one.test(expr)) continue
    const cases = ruleCases.filter(({ alert }) => alert === name)
    t.ok(
      cases.some(({ fires = [] }) => fires.length > 0),
      `${name} fires`,
    )
    t.ok(
      cases.some(({ quiet = [] }) => quiet.length > 0),
      `${name} does not`,
    )
  }
})
