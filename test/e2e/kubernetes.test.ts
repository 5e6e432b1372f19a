// A process of its own: long, and it mostly waits.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { nodeObject } from '../support/api-server/builders.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import type { ApiServer } from '../support/api-server/server.ts'
import { type ClusterService, clusterService, namedBackends } from '../support/cluster.ts'
import { testHost } from '../support/ports.ts'
import { dial, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import {
  get,
  launchHarmless,
  launchUsher,
  startUsher,
  type Usher,
} from '../support/usher.ts'

t.jobs = 4

/** Usher as a process, as the DaemonSet would start it, against a server of the test's own. */
const run = (t: Test, server: ApiServer, ...flags: string[]): Promise<Usher> =>
  startUsher(
    t,
    'run',
    `--kubeconfig=${server.kubeconfig()}`,
    '--hostname-override=node-1',
    ...flags,
  )

const becomes = (service: ClusterService, answer: string): Promise<void> =>
  until(`${service.name} answers ${answer}`, async () => (await service.ask()) === answer)

/** Waits until `names` and nobody else answer ten connections. */
const isServedBy = (service: ClusterService, ...names: string[]): Promise<void> =>
  until(`${names.join()} serve ${service.name}`, async () => {
    const answers = await service.askers(10)
    return answers.size === names.length && names.every(name => answers.has(name))
  })

t.test('the life of a Service, as its clients see it', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  const [a, b, c] = await namedBackends(t, 'a', 'b', 'c')
  if (a === undefined || b === undefined || c === undefined) throw new Error('backends')
  const web = await clusterService(server, 'web')
  const usher = await run(t, server)
  const gone = { ready: false, terminating: true } as const

  await t.test('created without endpoints it refuses', async () => {
    web.put()
    await until('the Service is known', async () => {
      const { servicePorts } = await usher.status()
      return servicePorts.some(({ servicePort }) => servicePort === 'default/web')
    })
    t.equal(await web.ask(), 'ECONNREFUSED')
  })
  await t.test('with an endpoint it answers', async () => {
    web.scale(a)
    await becomes(web, 'a')
  })
  await t.test('scaled to three, all of them share', async () => {
    web.scale(a, b, c)
    await isServedBy(web, 'a', 'b', 'c')
  })
  await t.test('with ClientIP a client stays where it is', async t => {
    web.put({ sessionAffinity: 'ClientIP' })
    await until('one answers all', async () => (await web.askers(10)).size === 1)
    const [first] = await web.askers(1)
    t.strictSame(await web.askers(20), new Set([first]))
  })
  await t.test('without it they share again', async () => {
    web.put()
    await isServedBy(web, 'a', 'b', 'c')
  })
  await t.test(
    'terminating endpoints get no new clients while one is ready',
    async () => {
      web.scale([a, gone], [b, gone], c)
      await isServedBy(web, 'c')
    },
  )
  await t.test('when all terminate, those that still serve go on', async () => {
    web.scale([a, gone], [b, gone], [c, { ...gone, serving: false }])
    await isServedBy(web, 'a', 'b')
  })
  await t.test('deleted it refuses, and forgets nothing that is open', async t => {
    web.scale(a)
    await becomes(web, 'a')
    web.remove()
    await becomes(web, 'ECONNREFUSED')
    t.strictSame((await usher.status()).servicePorts, [])
  })
  t.match(await get(usher.healthz, '/healthz'), { status: 200 })
})

t.test('a Service and its slice that come together are one sync', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  const [a] = await namedBackends(t, 'a')
  if (a === undefined) throw new Error('backend')
  const usher = await run(t, server)
  const syncs = async (): Promise<number> => {
    const { body } = await get(usher.metrics, '/metrics')
    return Number(/sync_proxy_rules_duration_seconds_count.* (\d+)/.exec(body)?.[1])
  }
  const before = await syncs()
  const names = Array.from({ length: 8 }, (_, i) => `web-${i}`)
  for (const name of names) {
    const web = await clusterService(server, name)
    web.put()
    await sleep(5)
    web.scale(a)
    await becomes(web, 'a')
    await sleep(30)
  }
  // A busy machine may have a watch come late.
  const made = (await syncs()) - before
  t.ok(made <= names.length + 4, `${made} syncs for ${names.length} Services`)
})

t.test('traffic policies follow the node of each endpoint', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  const [near, far] = await namedBackends(t, 'near', 'far')
  if (near === undefined || far === undefined) throw new Error('backends')
  const web = await clusterService(server, 'web')
  web.put({ internalTrafficPolicy: 'Local' })
  web.scale([near, { nodeName: 'node-1' }], [far, { nodeName: 'node-2' }])
  await run(t, server)
  await isServedBy(web, 'near')
  web.scale([far, { nodeName: 'node-2' }])
  await becomes(web, 'ECONNREFUSED')
  web.put({ internalTrafficPolicy: 'Cluster' })
  await becomes(web, 'far')
})

t.test('an API server that is away at the start is waited for', async t => {
  const server = await startApiServer(t)
  const [a] = await namedBackends(t, 'a')
  if (a === undefined) throw new Error('backend')
  const web = await clusterService(server, 'web')
  server.apply(nodeObject('node-1'))
  web.put()
  web.scale(a)
  server.shut()
  const starting = run(t, server)
  await new Promise(resolve => setTimeout(resolve, 1500))
  t.equal(await web.ask(), 'ECONNREFUSED', 'nothing is programmed')
  await server.reappear()
  await starting
  await becomes(web, 'a')
})

/** It may not write rules: which mode is asked for can be tried without harm to the host. */
const runHarmless = (t: Test, server: ApiServer, ...flags: string[]) =>
  launchHarmless(
    t,
    'run',
    `--kubeconfig=${server.kubeconfig()}`,
    '--hostname-override=node-1',
    '--capture=auto',
    ...flags,
  )

const betaMode = 'net.beta.kubernetes.io/proxy-mode'

t.test('the Node asks for a mode, and is told of the one that runs instead', async t => {
  const server = await startApiServer(t)
  const annotations = { [betaMode]: 'ipvs' }
  server.apply(nodeObject('node-1', '127.0.0.1', { annotations }))
  const usher = runHarmless(t, server, '--proxy-mode=')
  const askedBy = `annotation ${betaMode} of the Node`
  const said = await usher.logged('Using userspace Proxier')
  t.match(said, { askedBy, passedOver: { ipvs: /\S/, iptables: /\S/ } })
  const told = () =>
    server.objects('events').find(event => event['reason'] === 'ProxyModeFallback')
  await until('an Event says so', () => told() !== undefined)
  t.match(told(), {
    type: 'Warning',
    regarding: { kind: 'Node', name: 'node-1' },
    note: /^ipvs mode was requested, userspace mode runs: ipvs: \S.*; iptables: \S/,
  })
  const serving = await usher.logged('serving')
  const { body } = await get(String(serving['metrics']), '/proxyMode')
  t.equal(body, 'userspace')
})

t.test('without a word of the mode the best is taken, and nobody is warned', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1', '127.0.0.1', { annotations: { [betaMode]: 'IPVS' } }))
  const usher = runHarmless(t, server, '--proxy-mode=')
  await usher.logged(/^the annotation on the Node is not a proxy mode/, { value: 'IPVS' })
  const said = await usher.logged('Using userspace Proxier')
  t.match(said, { level: 'info', askedBy: undefined, passedOver: { iptables: /\S/ } })
  await usher.logged('serving')
  const events = () => server.objects('events')
  await until('an Event says what runs', () => events().length > 0)
  t.match(events(), [{ reason: 'Starting', note: /^Usher \d\S+, userspace mode$/ }])
})

t.test('an API server that does not answer is not waited for with the mode', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  server.faults.add({ kind: 'stall' }, { resources: ['nodes'], times: 1 })
  const started = performance.now()
  const usher = runHarmless(t, server, '--proxy-mode=')
  await usher.logged('cannot read the proxy mode annotation of the Node')
  await usher.logged('Using userspace Proxier')
  t.ok(performance.now() - started < 15_000, 'after 3 s, and not those of a request')
})

t.test('a proxy that never answers does not hold up the end', async t => {
  const server = await startApiServer(t)
  const silent = createServer(socket => {
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
  })
  silent.listen(0, testHost)
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const { port } = silent.address() as AddressInfo
  const path = server.kubeconfig()
  const file = t.testdir({
    kubeconfig: readFileSync(path, 'utf8').replace(
      '"server":',
      `"proxy-url": "http://${testHost}:${port}", "server":`,
    ),
  })
  const usher = launchUsher(t, 'run', `--kubeconfig=${file}/kubeconfig`)
  await once(silent, 'connection')
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0, signal: null })
})

t.test('an API server that goes away later leaves the last state served', async t => {
  const server = await startApiServer(t)
  const [a, b] = await namedBackends(t, 'a', 'b')
  if (a === undefined || b === undefined) throw new Error('backends')
  const web = await clusterService(server, 'web')
  server.apply(nodeObject('node-1'))
  web.put()
  web.scale(a)
  const usher = await run(t, server)
  await becomes(web, 'a')
  server.shut()
  await until('status says so', async () => (await usher.status()).source.error !== '')
  t.equal(await web.ask(), 'a')
  t.match(await get(usher.healthz, '/healthz'), { status: 200 }, 'it serves')
  web.scale(b)
  await server.reappear()
  await until('b answers', async () => (await web.ask()) === 'b')
  await until('all is well', async () => (await usher.status()).source.error === '')
})

t.test('open connections outlive their endpoint, and their Service', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))

  const a = await namedEcho(t, 'a')
  const web = await clusterService(server, 'web')
  web.put()
  web.scale(a)
  await run(t, server)
  await becomes(web, 'a')
  const client = dial(t, web.port, testHost)
  const heard: string[] = []
  client.on('data', data => heard.push(String(data)))
  await until('it is connected', () => heard.join('') === 'a')
  web.remove()
  await becomes(web, 'ECONNREFUSED')
  client.write('still here?')
  await until('it answers', () => heard.join('') === 'astill here?')
})
