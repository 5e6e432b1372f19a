// A process of its own: it starts Usher.
import t from 'tap'
import { knownMetrics, sometimesThere } from '../../scripts/monitoring/known-metrics.ts'
import { choices, dashboardExpressions } from '../../scripts/monitoring/panels.ts'
import { faultsOf, metricOf, namesIn } from '../../scripts/monitoring/promql.ts'
import { recordedNames, ruleExpressions } from '../../scripts/monitoring/rule-groups.ts'
import { parse } from '../observe/parse-exposition.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { ask, namedBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, startUsher } from '../support/usher.ts'

const all = [...ruleExpressions, ...dashboardExpressions]

t.test('names in an expression are found', async t => {
  t.strictSame(
    namesIn(
      'sum by (a, b) (rate(x_total{c=~"y{z}|w", d!="$v"}[5m])) > 1e3 or up == bool 0',
    ),
    { metrics: ['x_total', 'up'], labels: ['c', 'd', 'a', 'b'] },
  )
  const faults = (expr: string) => faultsOf(expr, new Set(['usher:r']))
  t.strictSame(faults('usher:r / on (job) usher_fds_used'), [])
  t.strictSame(faults('rate(usher_dial_duration_seconds_bucket{le="1"}[1m])'), [])
  t.match(faults('usher_fds_usd'), [/no metric usher_fds_usd/])
  t.match(faults('usher_dial_duration_seconds_total'), [/no metric/])
  t.match(faults('usher_fds_used_count'), [/no metric/])
  t.match(faults('usher_fds_used{cause="SC"}'), [/no label cause/])
  t.match(faults('vector(1)'), [/no metric/])
})

t.test('rules and dashboard name what the tables of metrics have', async t => {
  t.strictSame(
    all.flatMap(expr => faultsOf(expr, recordedNames)),
    [],
  )
  for (const { query } of choices) {
    const [, metric = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(query) ?? []
    t.strictSame(faultsOf(`${metric}{${label}=""}`, recordedNames), [], query)
  }
})

t.test('a running Usher has them', async t => {
  const [port, dead, gone] = [
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
  ]
  const backend = await namedBackend(t, 'hello')
  const file = await manifestFile(
    t,
    service('web', testHost, [{ name: 'p', port }]),
    ...slice('web', [backend.endpoint]),
    service('dead', testHost, [{ name: 'p', port: dead }]),
    ...slice('dead', [endpoint(testHost, gone)]),
  )
  const usher = await startUsher(t, 'run', '--manifests', file.path, '--dial-ladder=50ms')
  const scrape = async () => parse((await get(usher.metrics, '/metrics')).body)
  t.equal((await ask(port, testHost)).text, 'hello')
  await ask(dead, testHost).catch(() => undefined)
  const failed = 'usher_connections_failed_total'
  await until(
    'a failure is counted',
    async () => (await scrape()).get(failed)?.values.size === 1,
  )
  const families = await scrape()

  const named = new Set(all.flatMap(expr => namesIn(expr).metrics))
  const rows = [...named].flatMap(name => metricOf(name) ?? [])
  for (const { name, type } of rows)
    if (!sometimesThere.has(name)) t.equal(families.get(name)?.type, type, name)
  t.match([...(families.get(failed)?.values.keys() ?? [])], [/cause="SC"/])

  await t.test('and the tables have all that it has', async t => {
    for (const [name, { type }] of families)
      t.equal(knownMetrics.get(name)?.type, type, name)
  })
})
