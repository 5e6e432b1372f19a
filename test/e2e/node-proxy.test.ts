// A process of its own: long, and it mostly waits.
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { nodeObject, serviceObject } from '../support/api-server/builders.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import type { ApiServer } from '../support/api-server/server.ts'
import { clusterService, namedBackends } from '../support/cluster.ts'
import { portOf } from '../support/connection.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { until } from '../support/until.ts'
import { get, launchUsher, runUsher, startUsher, type Usher } from '../support/usher.ts'

t.jobs = 4

const start = (t: Test, server: ApiServer, ...flags: string[]): Promise<Usher> =>
  startUsher(
    t,
    'run',
    `--kubeconfig=${server.kubeconfig()}`,
    '--hostname-override=Node-1 ',
    ...flags,
  )

const withNode = async (t: Test): Promise<ApiServer> => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  return server
}

t.test('the health server answers as kube-proxy does', async t => {
  const server = await withNode(t)
  const usher = await start(t, server)
  const health = await get(usher.healthz, '/healthz')
  t.equal(health.status, 200)
  t.match(JSON.parse(health.body), {
    lastUpdated: String,
    currentTime: String,
    nodeEligible: true,
    healthy: true,
    status: { IPv4: { lastUpdated: String, healthy: true } },
  })
  const live = JSON.parse((await get(usher.healthz, '/livez')).body) as object
  t.notOk('nodeEligible' in live)
  const code = async (path: string) => (await get(usher.healthz, path)).status

  await t.test('a node that the autoscaler takes away is not eligible', async t => {
    const taints = [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }]
    server.apply(nodeObject('node-1', '127.0.0.1', { spec: { taints } }))
    await until('healthz is red', async () => (await code('/healthz')) === 503)
    t.equal(await code('/livez'), 200)
    server.apply(nodeObject('node-1'))
    await until('healthz is green', async () => (await code('/healthz')) === 200)
  })
  await t.test('a node that is being deleted is not eligible', async t => {
    const metadata = { deletionTimestamp: new Date().toISOString() }
    server.apply(nodeObject('node-1', '127.0.0.1', { metadata }))
    await until('healthz is red', async () => (await code('/healthz')) === 503)
    t.equal(await code('/livez'), 200)
  })
})

t.test('a Node that the API server does not know is told, until it does', async t => {
  const server = await startApiServer(t)
  const usher = await start(t, server)
  const problems = async () => (await usher.status()).problems.map(({ object }) => object)
  await until('it is told', async () => (await problems())[0] === 'Node node-1')
  t.match(await get(usher.healthz, '/healthz'), { status: 503 })
  server.apply(nodeObject('node-1'))
  await until('it is there', async () => (await problems()).length === 0)
  t.match(await get(usher.healthz, '/healthz'), { status: 200 })
})

t.test('the metrics server answers as kube-proxy does', async t => {
  const server = await withNode(t)
  const usher = await start(t, server, '--iptables-sync-period=20s')
  t.strictSame(await get(usher.metrics, '/proxyMode'), { status: 200, body: 'userspace' })
  const configz = JSON.parse((await get(usher.metrics, '/configz')).body) as object
  t.match(configz, {
    'kubeproxy.config.k8s.io': {
      kind: 'KubeProxyConfiguration',
      iptables: { syncPeriod: '20s' },
    },
  })
  const { body } = await get(usher.metrics, '/metrics')
  for (const name of [
    'kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}',
    'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}',
    'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"}',
    'kubeproxy_sync_proxy_rules_service_changes_pending',
    'kubeproxy_sync_proxy_rules_endpoint_changes_total',
    'kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="0.25"}',
    'rest_client_requests_total{code="200"',
    'usher_source_age_seconds',
  ])
    t.ok(body.includes(name), name)
})

t.test('the Node hears that the proxy started, and Services of what fails', async t => {
  const server = await withNode(t)
  const taken = createServer().listen(0)
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const port = portOf(taken)
  server.apply(
    serviceObject('lb', testHost, {
      spec: {
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: port,
        ports: [{ protocol: 'TCP', port: await freeTcpPort(), targetPort: 80 }],
      },
    }),
  )
  await start(t, server)
  const reasons = () =>
    server
      .objects('events')
      .map(event => `${String(event['reason'])} ${String(event['type'])}`)
  await until('both events are there', () => reasons().length >= 2)
  t.strictSame(reasons().toSorted(), [
    'FailedToStartServiceHealthcheck Warning',
    'Starting Normal',
  ])
})

t.test('a healthCheckNodePort counts the ready endpoints of this node', async t => {
  const server = await withNode(t)
  const [a, b] = await namedBackends(t, 'a', 'b')
  if (a === undefined || b === undefined) throw new Error('backends')
  const lb = await clusterService(server, 'lb')
  const port = await freeTcpPort('0.0.0.0')
  lb.put({
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: port,
  })
  lb.scale([a, { nodeName: 'node-1' }], [b, { nodeName: 'node-2' }])
  await start(t, server)
  const answer = () => fetch(`http://127.0.0.1:${port}/any`)
  const good = await answer()
  t.equal(good.status, 200)
  t.equal(good.headers.get('x-load-balancing-endpoint-weight'), '1')
  t.match(JSON.parse(await good.text()), {
    service: { namespace: 'default', name: 'lb' },
    localEndpoints: 1,
    serviceProxyHealthy: true,
  })
  lb.scale([b, { nodeName: 'node-2' }])
  await until('it is 503', async () => (await answer()).status === 503)
})

t.test('a changed configuration file ends it with 75, a broken one does not', async t => {
  const server = await withNode(t)
  const path = join(t.testdir({}), 'config.yaml')
  const write = (more: string) =>
    writeFile(
      path,
      [
        'apiVersion: kubeproxy.config.k8s.io/v1alpha1',
        'kind: KubeProxyConfiguration',
        'mode: userspace',
        `clientConnection: {kubeconfig: ${server.kubeconfig()}}`,
        `metricsBindAddress: ${testHost}:0`,
        `healthzBindAddress: ${testHost}:0`,
        more,
      ].join('\n'),
    )
  await write('')
  const usher = await startUsher(t, 'run', '--config', path, '--drain-timeout=1s')
  await write('iptables: {syncPeriod: -1s}')
  await usher.logged(/cannot be used; keeping the old configuration/)
  await write('iptables: {syncPeriod: 40s}')
  t.strictSame(await usher.exit, { code: 75, signal: null })
})

t.test('with --bind-address-hard-fail a taken port ends it', async t => {
  const server = await withNode(t)
  const taken = createServer().listen(0, testHost)
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { code, err } = await runUsher(
    'run',
    `--kubeconfig=${server.kubeconfig()}`,
    '--bind-address-hard-fail',
    `--metrics-bind-address=${testHost}:${portOf(taken)}`,
    `--healthz-bind-address=${testHost}:0`,
  )
  t.equal(code, 1)
  t.match(
    err,
    /metrics server cannot listen .*EADDRINUSE: another process .* --metrics-bind-address/,
  )
})

t.test(
  'while the API server is away at the start it is red, lives, and can be ended',
  async t => {
    const server = await withNode(t)
    const kubeconfig = `--kubeconfig=${server.kubeconfig()}`
    server.shut()
    const usher = launchUsher(t, 'run', kubeconfig, '--hostname-override=node-1')
    const listens = await usher.logged('admin server is listening', { server: 'health' })
    const health = String(listens['address'])
    const lost = await usher.logged('cannot read from the API server; retrying')
    t.match(lost, { server: /^https:/, advice: /--kubeconfig or --master/ })
    t.match(await get(health, '/healthz'), { status: 503 })
    t.match(await get(health, '/livez'), { status: 200 }, 'a restart would mend nothing')
    t.match(await usher.logged('not serving yet'), { reasons: [/read/] })
    usher.send('SIGTERM')
    t.strictSame(await usher.exit, { code: 0, signal: null })
  },
)
