// A process of its own: it mostly waits.
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { serverDirectory } from '../health/server-process.ts'
import { socketPath } from '../support/control-socket.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { publishedSchema } from '../support/output-schema.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { runUsher, startUsher } from '../support/usher.ts'

t.jobs = 2

/** The Service default/web at testHost, and what is said of it. */
const setUp = async (t: Test, spec: object, ...flags: string[]) => {
  const port = await freeTcpPort()
  const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
  const http = { name: 'http', protocol: 'TCP', port }
  const objectsOf = (...endpoints: Parameters<typeof slice>[1]) => [
    service('web', testHost, [http], spec),
    ...slice('web', endpoints, http),
  ]
  const file = await manifestFile(t, ...objectsOf(a.endpoint, b.endpoint))
  const socket = await socketPath(t)
  const to = [`--manifests=${file.path}`, `--control-socket=${socket}`]
  const usher = await startUsher(t, 'run', ...to, ...flags)
  const at = `${testHost}:${port}`
  const explain = (...args: string[]) =>
    runUsher('explain', ...args, `--address=${usher.metrics}`)
  return { usher, port, at, a, b, file, objectsOf, socket, explain }
}

const named = (answer: { readonly out: string }): string => {
  const said = /^would get {2}(\S+) /m.exec(answer.out)
  return said?.[1] ?? answer.out
}

t.test('turns, a drain, and an endpoint that is gone', async t => {
  const { usher, port, at, a, b, explain, socket } = await setUp(
    t,
    {},
    '--relay=portable',
  )
  const first = await explain(testHost, at)
  t.equal(first.err, '')
  t.equal(first.code, 0)
  t.match(first.out, `${testHost} -> ${at} (TCP) is default/web:http, ClusterIP\n`)
  t.match(first.out, /^verdict +forward: internalTrafficPolicy Cluster$/m)
  t.match(first.out, /^affinity +none$/m)
  for (let i = 0; i < 3; i += 1) {
    const next = named(await explain(testHost, at))
    t.equal(named(await explain(testHost, at)), next, 'looking takes no turn')
    const client = dial(t, port)
    const [said] = (await once(client, 'data')) as [Buffer]
    t.equal(next, (String(said) === 'a' ? a : b).endpoint.key)
  }

  const drained = await runUsher('drain', a.endpoint.key, '--control-socket', socket)
  t.equal(drained.code, 0, drained.err)
  const without = await runUsher('explain', testHost, at, '--control-socket', socket)
  t.equal(without.code, 0, without.err)
  t.match(without.out, new RegExp(`^${a.endpoint.key} +no +drained by order$`, 'm'))
  t.equal(named(without), b.endpoint.key)

  await b.close()
  const client = dial(t, port).on('error', () => {})
  await new Promise(resolve => client.on('close', resolve))
  const json = await explain(testHost, at, '-o', 'json')
  t.match(JSON.parse(json.out), {
    apiVersion: 'usher-proxy.io/v1alpha1',
    kind: 'Explanation',
    route: 'default/web:http',
    addressKind: 'ClusterIP',
    balance: 'round-robin',
    endpoints: [a, b]
      .map(({ endpoint: { key } }) => key)
      .toSorted()
      .map(endpoint =>
        endpoint === a.endpoint.key
          ? { endpoint, serves: false, reason: 'drained' }
          : { endpoint, failure: { why: 'ECONNREFUSED' } },
      ),
  })
  const isDocument = publishedSchema('output')
  t.ok(isDocument(JSON.parse(json.out)), JSON.stringify(isDocument.errors))
  const page = await fetch(
    `http://${usher.metrics}/explain?client=${testHost}&address=${at}`,
  )
  t.match(await page.json(), { route: 'default/web:http' })
})

t.test('affinity, source ranges and a Local policy', async t => {
  const spec = {
    sessionAffinity: 'ClientIP',
    type: 'LoadBalancer',
    externalIPs: ['127.0.0.77'],
    internalTrafficPolicy: 'Local',
    externalTrafficPolicy: 'Cluster',
  }
  const { port, at, explain } = await setUp(t, spec, '--hostname-override=here')
  const local = await explain('127.0.0.9', at)
  t.equal(local.code, 1)
  t.match(
    local.out,
    /^verdict +refuse: no endpoint on this node \(internalTrafficPolicy Local\)$/m,
  )
  t.match(local.out, /^\S+ +no +not on this node$/m)
  const external = `127.0.0.77:${port}`
  const client = dial(t, port, '127.0.0.77', '127.0.0.9')
  const [said] = (await once(client, 'data')) as [Buffer]
  await until('it is remembered', async () =>
    (await explain('127.0.0.9', external)).out.includes('by affinity until'),
  )
  const again = await explain('127.0.0.9', external)
  t.equal(again.code, 0)
  t.match(again.out, new RegExp(`^affinity +ClientIP, 3h$`, 'm'))
  t.ok(said.length > 0)
})

t.test('routes of a sidecar, one of them at a unix socket', async t => {
  const port = await freeTcpPort()
  const a = await namedEcho(t, 'a')
  const path = `${serverDirectory(t)}/s`
  const [tcp, unix] = [`${testHost}:${port}`, `unix:${path}`]
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${tcp}=${a.endpoint.key}`,
    `--route=${unix}=${a.endpoint.key}?name=db&socket-mode=600`,
  )
  const explain = (...args: string[]) =>
    runUsher('explain', ...args, `--address=${usher.metrics}`)
  for (const [said, start] of [
    [await explain(testHost, tcp), `${testHost} -> ${tcp} (TCP) is tcp-`],
    [await explain(unix), `unix: -> ${unix} (TCP) is db, Route\n`],
    [await explain('unix:', `unix://${path}`), `unix: -> ${unix} (TCP) is db, Route\n`],
  ] as const) {
    t.equal(said.code, 0, said.err)
    t.ok(said.out.startsWith(start), said.out)
    t.match(said.out, /, Route\n/)
    t.match(said.out, /^served +by its own listener$/m)
    t.match(said.out, /^verdict +forward: a route has no traffic policy$/m)
    t.equal(named(said), a.endpoint.key)
  }
  const status = await runUsher('status', `--address=${usher.metrics}`)
  for (const at of [tcp, unix])
    t.match(
      status.out,
      new RegExp(`^  Route +${at} +by its own listener +listening$`, 'm'),
    )
  t.match(status.out, /^capture +listen$/m)
  t.match(status.out, /^2 routes, /m)
  t.notMatch(status.out, /ClusterIP|local/)
  const wrong = await explain(testHost, unix)
  t.equal(wrong.code, 1)
  t.match(wrong.err, 'who dials a unix socket has no address: the client is "unix:"')
  t.match((await explain('unix:', tcp)).err, "give the client's IP address")
  t.match((await explain('unix:/nowhere')).err, 'nothing is served at unix:/nowhere')
})

t.test('probers, and endpoints that are tried though they are down', async t => {
  const [a, down, ports] = [
    await namedEcho(t, 'a'),
    `${testHost}:${await freeTcpPort()}`,
    [await freeTcpPort(), await freeTcpPort()],
  ]
  const [probed, tried] = ports.map(port => `${testHost}:${port}`)
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${probed}=${a.endpoint.key}?probers=127.0.0.0/8`,
    `--route=tcp://${tried},tcp://[::1]:${ports[1]}=${down}?name=both&check=tcp`,
  )
  const explain = (address = '') =>
    runUsher('explain', testHost, address, `--address=${usher.metrics}`)
  const prober = await explain(probed)
  t.equal(prober.code, 1)
  t.match(prober.out, /^verdict +refuse: it is one of the probers, .* closed$/m)
  await usher.logged('an endpoint is down', { endpoint: down })
  await until('it is said', async () =>
    (await explain(tried)).out.includes('its check: connection refused'),
  )
  const { out } = await runUsher('status', `--address=${usher.metrics}`)
  t.match(out, /^route\/both TCP {2}down: .* tried all the same$/m)
})

t.test('what is not there', async t => {
  const { port, at, explain } = await setUp(t, {})
  const udp = await explain(testHost, at, '--protocol=udp')
  t.equal(udp.code, 1)
  t.match(
    udp.err,
    `nothing is served at ${at} (UDP); ${testHost} has port ${port} (TCP) of default/web:http`,
  )
  const other = await explain(testHost, `192.0.2.1:${port}`)
  t.match(other.err, 'no Service or route has this address')
  t.equal((await explain('x', at)).code, 2)
  t.equal((await explain(testHost)).code, 2)
})
