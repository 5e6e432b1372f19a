// A process of its own: long, and it mostly waits.
import { once } from 'node:events'
import t, { type Test } from 'tap'
import type { RelayEndpoint } from '../../src/relay/relay.ts'
import { type ManifestFile, manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, freeTcpPorts, testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { ask, dial, firstWord, namedBackend, namedEcho } from '../support/tcp-backend.ts'
import { echoUdp } from '../support/udp-backend.ts'
import { udpClient } from '../support/udp-client.ts'
import { until } from '../support/until.ts'
import { get, runUsher, startUsher, type Usher } from '../support/usher.ts'

t.jobs = 4

const run = (t: Test, file: ManifestFile, ...flags: string[]): Promise<Usher> =>
  startUsher(t, 'run', '--manifests', file.path, ...flags)

/** A Service with one port and its endpoints. */
const web = (name: string, port: number, ...endpoints: RelayEndpoint[]): object[] => [
  service(name, testHost, [{ name: 'p', port }]),
  ...slice(name, endpoints),
]

const named = async (t: Test, name: string): Promise<RelayEndpoint> =>
  (await namedBackend(t, name)).endpoint

t.test('run serves TCP and UDP on one VIP and port, and tells of it', async t => {
  const port = await freeTcpPort()
  const udp = { name: 'u', protocol: 'UDP', port }
  const usher = await run(
    t,
    await manifestFile(
      t,
      service('web', testHost, [{ name: 'p', port }, udp]),
      ...slice('web', [await named(t, 'a'), await named(t, 'b')]),
      ...slice('web', [(await echoUdp(t)).endpoint], udp),
    ),
    '--relay-workers=1', // Each worker takes turns of its own.
  )
  const answers: string[] = []
  for (let i = 0; i < 4; i += 1) answers.push((await ask(port)).text)
  t.strictSame(answers.toSorted(), ['a', 'a', 'b', 'b'])
  const client = await udpClient(t, port)
  t.equal(await client.ask('over UDP'), 'over UDP')

  t.strictSame(await get(usher.metrics, '/proxyMode'), { status: 200, body: 'userspace' })
  for (const path of ['/healthz', '/livez']) {
    t.match(await get(usher.healthz, path), { status: 200, body: '"healthy":true' })
  }
  const { body } = await get(usher.metrics, '/metrics')
  const series = (name: string, labels: string): string =>
    new RegExp(`^${name}\\{${labels}\\} (.*)$`, 'm').exec(body)?.[1] ?? 'missing'
  const tcpLabels = 'service_port="default/web:p",protocol="TCP"'
  const udpLabels = 'service_port="default/web:u",protocol="UDP"'
  t.equal(series('usher_connections_accepted_total', tcpLabels), '4')
  t.equal(series('usher_connections_active', tcpLabels), '0')
  const toClient = 'direction="backend->client"'
  t.equal(series('usher_relayed_bytes_total', `${tcpLabels},${toClient}`), '4')
  t.equal(series('usher_relayed_bytes_total', `${udpLabels},${toClient}`), '8')
  t.equal(series('usher_udp_datagrams_total', `${udpLabels},${toClient}`), '1')

  t.match(await usher.servicePort('web:p'), {
    accepted: 4,
    failed: 0,
    vips: [{ vip: `${testHost}:${port}`, capture: 'listen', state: 'listening' }],
    endpoints: [{ state: 'ready' }, { state: 'ready' }],
  })
  const shown = await runUsher('status', '--address', usher.metrics)
  t.equal(shown.code, 0)
  t.match(shown.out, 'default/web:p')
  t.match(shown.out, '4 accepted')
})

t.test('a changed file counts at once and leaves open connections alone', async t => {
  const port = await freeTcpPort()
  const [a, b] = [await namedEcho(t, 'a'), await namedBackend(t, 'b')]
  const file = await manifestFile(t, ...web('web', port, a.endpoint))
  await run(t, file)
  const client = dial(t, port)
  t.equal(String(await once(client, 'data')), 'a')
  await file.write(...web('web', port, b.endpoint))
  await until('the new endpoint is used', async () => (await firstWord(port)) === 'b')
  client.write('still here?')
  t.equal(String(await once(client, 'data')), 'still here?')
})

t.test('a broken file leaves the last good state, and says where it broke', async t => {
  const port = await freeTcpPort()
  const [a, b] = [await named(t, 'a'), await named(t, 'b')]
  const file = await manifestFile(t, ...web('web', port, a))
  const usher = await run(t, file)
  await file.writeText('kind: Service\n---\n# the second\nmetadata: {name: [\n')
  const { object } = await usher.logged(/^line 5: /, { level: 'warn' })
  t.equal(object, `${file.path} document 2`)
  const { out } = await runUsher('status', '--json', '--address', usher.metrics)
  const { source } = JSON.parse(out) as { source: { error: string } }
  t.ok(source.error.includes(`${file.path} document 2: line 5: `), source.error)
  t.equal((await ask(port)).text, 'a', 'what was good goes on')
  await file.write(...web('web', port, b))
  await until('the mended file is used', async () => (await ask(port)).text === 'b')
  t.equal((await usher.status()).source.error, '')
  await usher.logged('all problems are resolved')
})

t.test('SIGHUP reads the files again', async t => {
  const port = await freeTcpPort()
  const file = await manifestFile(t, ...web('web', port, await named(t, 'a')))
  const usher = await run(t, file)
  const lastRead = async () => (await usher.status()).source.lastGoodAt ?? 0
  const since = performance.now()
  const times = 12
  for (let i = 0; i < times; i += 1) {
    const before = await lastRead()
    usher.send('SIGHUP')
    await until('the files were read', async () => (await lastRead()) > before)
  }
  const looks = (performance.now() - since) / 2000 + 1
  t.ok(times > 2 * looks, `more often than they are looked at (${looks} times)`)
  t.equal((await ask(port)).text, 'a')
})

t.test('a bad Service is refused by name and field, the others are served', async t => {
  const [port, nodePort] = [await freeTcpPort(), await freeTcpPort('0.0.0.0')]
  const ports = [await freeTcpPort(), await freeTcpPort(), await freeTcpPort()]
  const one = (name: string, more: object, vip = testHost): object =>
    service(name, vip, [{ name: 'p', port: ports[0] ?? 0, ...more }])
  const a = await named(t, 'a')
  const usher = await run(
    t,
    await manifestFile(
      t,
      one('far', { port: 70_000 }),
      one('zero', { port: 0 }),
      one('sctp', { protocol: 'SCTP' }),
      one('odd', { protocol: 'QUIC' }),
      one('nowhere', {}, '127.0.0.300'),
      ...web('web', port, a),
      service('rival', testHost, [{ name: 'p', port }]),
      service('node', testHost, [{ name: 'p', port: ports[1] ?? 0, nodePort }]),
      service('node-rival', testHost, [{ name: 'p', port: ports[2] ?? 0, nodePort }]),
      ...slice('node', [a]),
      ...slice('node-rival', [await named(t, 'rival')]),
    ),
  )
  const { problems, servicePorts } = await usher.status()
  const fieldOf = (name: string): string => {
    const own = new RegExp(`Service default/${name}\\)?$`)
    return problems
      .filter(({ object }) => own.test(object))
      .map(({ field }) => field)
      .join(' ')
  }
  t.equal(fieldOf('far'), 'spec.ports[0].port')
  t.equal(fieldOf('zero'), 'spec.ports[0].port')
  t.equal(fieldOf('sctp'), 'spec.ports')
  t.equal(fieldOf('odd'), 'spec.ports[0].protocol')
  t.equal(fieldOf('nowhere'), 'spec.clusterIP')
  t.match(fieldOf('rival'), /^spec.clusterIPs?$/)
  t.equal(fieldOf('node-rival'), 'spec.ports[0].nodePort')
  t.equal(problems.length, 7, 'and nothing else is wrong')
  await usher.logged(/70000/, { level: 'warn', field: 'spec.ports[0].port' })
  const names = servicePorts.map(({ servicePort }) => servicePort).toSorted()
  const all = ['node-rival', 'node', 'sctp', 'web'].map(name => `default/${name}:p`)
  t.strictSame(names, all)
  t.equal((await ask(port)).text, 'a')
  t.equal((await ask(nodePort)).text, 'a', 'the first has the node port')
  t.equal((await ask(ports[2] ?? 0)).text, 'rival', 'the second has its VIP')
})

t.test('a port that somebody else holds is red, and taken when it is free', async t => {
  const other = await namedBackend(t, 'somebody else')
  const [taken, port] = [other.endpoint.port, await freeTcpPort()]
  const a = await named(t, 'a')
  const file = await manifestFile(t, ...web('web', port, a), ...web('late', taken, a))
  const usher = await run(t, file, '--sync-period', '200ms')
  const vipOf = async (name: string) => (await usher.servicePort(name)).vips[0]
  t.match(await vipOf('late:p'), { state: 'failed', reason: 'EADDRINUSE' })
  t.match(await vipOf('web:p'), { state: 'listening' })
  t.equal((await ask(port)).text, 'a', 'the other VIP is served')
  const address = `${testHost}:${taken}`
  await usher.logged('cannot listen; retrying', { address, level: 'error' })
  const health = async () => (await get(usher.healthz, '/healthz')).status
  await until('health is red', async () => (await health()) === 503)
  t.match((await usher.status()).unhealthy, [`cannot listen on ${address}`])
  await other.close()
  await until('it is served', async () => (await ask(taken)).text === 'a')
  t.match(await vipOf('late:p'), { state: 'listening' })
  t.equal(await health(), 200)
})

t.test('proxy ports stay the same while endpoints and files change', async t => {
  const a = await named(t, 'a')
  const vip = '203.0.113.10'
  const both = [{ name: 'p', port: 80 }]
  const file = await manifestFile(t, service('web', vip, both), ...slice('web', [a]))
  const flags = ['--capture', 'none', '--bind-address', testHost]
  const usher = await run(t, file, ...flags)
  const proxyPort = async (): Promise<number> => {
    const [placed] = (await usher.servicePort('web:p')).vips
    t.match(placed, { vip: `${vip}:80`, capture: 'none' })
    return Number(placed?.listen.split(':')[1])
  }
  const port = await proxyPort()
  t.equal((await ask(port)).text, 'a')
  await file.write(service('web', vip, both))
  await until('refused', async () => (await ask(port)).how === 'ECONNREFUSED')
  t.match((await usher.servicePort('web:p')).vips, [{ state: 'refusing' }])
  t.equal(await proxyPort(), port, 'without endpoints')

  const more = [{ name: 'p', port: 81 }]
  await file.write(
    service('other', '203.0.113.11', more),
    service('web', vip, both, { sessionAffinity: 'ClientIP' }),
    ...slice('web', [a]),
    ...slice('other', [await named(t, 'other')]),
  )
  await until('served again', async () => (await ask(port)).text === 'a')
  t.equal(await proxyPort(), port, 'with endpoints again and another Service')

  await file.write(service('other', '203.0.113.11', more))
  await until('gone', async () => (await ask(port)).how === 'ECONNREFUSED')
  await file.write(service('web', vip, both), ...slice('web', [a]))
  await until('served again', async () => (await ask(port)).text === 'a')
  t.equal(await proxyPort(), port, 'after the Service was away')
})

t.test('proxy ports come from their range, and its end is told', async t => {
  const first = await freeTcpPorts(2)
  const range = `${first}-${first + 1}`
  const a = await named(t, 'a')
  const one = (n: number): object[] => [
    service(`web-${n}`, `203.0.113.${n}`, [{ name: 'p', port: 80 }]),
    ...slice(`web-${n}`, [a]),
  ]
  const file = await manifestFile(t, ...one(1), ...one(2), ...one(3))
  const flags = ['--capture', 'none', '--bind-address', testHost]
  const usher = await run(t, file, ...flags, '--proxy-port-range', range)
  const vipOf = async (n: number) => (await usher.servicePort(`web-${n}:p`)).vips[0]
  const placed = [await vipOf(1), await vipOf(2), await vipOf(3)]
  const listens = new Set(placed.map(vip => vip?.listen))
  const expected = ['', `${testHost}:${first}`, `${testHost}:${first + 1}`]
  t.strictSame(listens, new Set(expected))
  const without = placed.find(vip => vip?.listen === '')
  t.match(without, { state: 'not captured', reason: `no port of ${range} is free` })
  const told = await usher.logged(/^VIP not captured: /, { level: 'warn' })
  t.equal(told['vip'], without?.vip)
  t.match(told.msg, '--proxy-port-range')
  t.equal((await ask(first)).text, 'a')

  const left = [1, 2, 3].filter(n => placed[n - 1]?.listen !== `${testHost}:${first}`)
  await file.write(...left.flatMap(one))
  await until('the one that waited has the port', async () => {
    const now = await Promise.all(left.map(vipOf))
    return now.some(vip => vip?.listen === `${testHost}:${first}`)
  })
  t.equal((await ask(first)).text, 'a')
  t.match(await ask(await freeTcpPort()), { how: 'ECONNREFUSED' })
})

t.test('a Service without endpoints refuses its clients', async t => {
  const port = await freeTcpPort()
  const usher = await run(t, await manifestFile(t, ...web('web', port)))
  t.match(await ask(port), { how: 'ECONNREFUSED' })
  t.match(await usher.servicePort('web:p'), {
    vips: [{ state: 'refusing', reason: 'no endpoints' }],
    endpoints: [],
  })
})

t.test('a dead endpoint is passed over without the client noticing', async t => {
  const port = await freeTcpPort()
  const dead = endpoint(testHost, await freeTcpPort())
  const file = await manifestFile(t, ...web('web', port, await named(t, 'a'), dead))
  const usher = await run(t, file)
  for (let i = 0; i < 4; i += 1) t.match(await ask(port), { text: 'a', how: 'end' })
  const { retries, ...counted } = await usher.servicePort('web:p')
  t.match(counted, { accepted: 4, failed: 0 })
  t.ok((retries ?? 0) >= 1, `${retries} retries were needed`)
})
