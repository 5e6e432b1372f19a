// A process of its own: long, and it mostly waits.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { ask, dial, firstWord, namedBackend, namedEcho } from '../support/tcp-backend.ts'
import { echoUdp } from '../support/udp-backend.ts'
import { udpClient } from '../support/udp-client.ts'
import { until } from '../support/until.ts'
import { get, launchUsher, runUsher, startUsher } from '../support/usher.ts'

t.jobs = 4

/** A running Usher with one echo Service, and a client in the middle of a connection. */
const withOpenConnection = async (t: Test, ...flags: string[]) => {
  const port = await freeTcpPort()
  const backend = await namedEcho(t, 'a')
  const file = await manifestFile(
    t,
    service('web', testHost, [{ name: 'p', port }]),
    ...slice('web', [backend.endpoint]),
  )
  const usher = await startUsher(t, 'run', file.path, ...flags)
  const client = dial(t, port)
  await once(client, 'data')
  return { usher, client, port, backend: backend.endpoint }
}

t.test('SIGTERM lets open connections finish, and then exits 0', async t => {
  const { usher, client, port } = await withOpenConnection(t)
  let exited = false
  void usher.exit.then(() => (exited = true))
  usher.send('SIGTERM')
  await until('nobody new is accepted', async () => {
    return (await firstWord(port)) === 'ECONNREFUSED'
  })
  t.match(await get(usher.healthz, '/healthz'), { status: 503 }, 'no traffic, please')
  t.match(await get(usher.healthz, '/livez'), { status: 200 }, 'but it lives')
  t.equal((await usher.status()).draining, true)
  client.write('still here?')
  t.equal(String(await once(client, 'data')), 'still here?')
  await sleep(200)
  t.notOk(exited)
  client.end()
  await once(client, 'end')
  t.strictSame(await usher.exit, { code: 0, signal: null })
  t.match(await usher.logged('stopped'), { reset: 0 })
})

t.test('what is open when the drain time is over is reset, and it exits 0', async t => {
  const { usher, client } = await withOpenConnection(t, '--drain-timeout', '500ms')
  const failed = once(client, 'end').catch((error: NodeJS.ErrnoException) => error.code)
  usher.send('SIGINT')
  t.equal(await failed, 'ECONNRESET')
  t.strictSame(await usher.exit, { code: 0, signal: null })
  t.match(await usher.logged('stopped'), { reset: 1 })
  t.match(await usher.logged('connection failed'), { cause: 'KD' })
})

t.test('a second signal ends it at once', async t => {
  const endings = [
    { signals: ['SIGTERM', 'SIGTERM'], code: 143 },
    { signals: ['SIGTERM', 'SIGINT'], code: 130 },
  ] as const
  for (const { signals, code } of endings) {
    const { usher, client } = await withOpenConnection(t)
    client.on('error', () => {})
    const [first, second] = signals
    usher.send(first)
    await usher.logged('stopping: draining', { reason: first })
    usher.send(second)
    t.strictSame(await usher.exit, { code, signal: null })
    await usher.logged('second signal: ending at once', { signal: second })
  }
})

t.test('each connection is one record at debug', async t => {
  const { usher, client, port, backend } = await withOpenConnection(
    t,
    '--log-level=debug',
  )
  const { localPort } = client
  client.end('12345')
  await once(client, 'end')
  const record = await usher.logged('connection closed')
  t.match(record, {
    level: 'debug',
    servicePort: 'default/web:p',
    client: `127.0.0.1:${localPort}`,
    endpoint: backend.key,
    attempts: [{ endpoint: backend.key, result: 'connected' }],
    bytes: { 'client->backend': 5, 'backend->client': 6 },
    cause: '--',
    detail: '',
  })
  t.ok(Number(record['dialMs']) <= Number(record['totalMs']))
  await firstWord(port)
  const closed = () => usher.records.filter(({ msg }) => msg === 'connection closed')
  await until('the second is written too', () => closed().length > 1)
  t.equal(closed().length, 2, 'one record each')
})

t.test('failures are records at info, a limited number of them', async t => {
  const port = await freeTcpPort()
  const dead = endpoint(testHost, await freeTcpPort())
  const file = await manifestFile(
    t,
    service('web', testHost, [{ name: 'p', port }]),
    ...slice('web', [dead]),
  )
  const usher = await startUsher(t, 'run', file.path, '--dial-ladder', '10ms')
  const clients = 60
  const endings = await Promise.all(Array.from({ length: clients }, () => ask(port)))
  t.ok(endings.every(({ how }) => how === 'ECONNRESET'))
  usher.send('SIGTERM')
  t.equal((await usher.exit).code, 0)
  const failed = usher.records.filter(({ msg }) => msg === 'connection failed')
  t.ok(failed.length >= 10 && failed.length < 20, `${failed.length} were written`)
  t.match(failed[0], {
    level: 'info',
    servicePort: 'default/web:p',
    endpoint: '',
    attempts: [{ endpoint: dead.key, result: 'refused' }],
    cause: 'SC',
    detail: `ECONNREFUSED from ${dead.key}`,
  })
  const heldBack = usher.records.reduce(
    (sum, { heldBack: held }) => sum + Number(held ?? 0),
    0,
  )
  t.equal(failed.length + heldBack, clients, 'the others are counted')
})

t.test('sidecar serves routes over TCP and UDP, to host names too', async t => {
  const [tcpPort, udpPort, literalPort] = [
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
  ]
  const local = '127.0.0.1'
  const a = await namedBackend(t, 'a', local)
  const b = await namedBackend(t, 'b')
  const udp = await echoUdp(t, local)
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${tcpPort}=localhost:${a.endpoint.port}`,
    `--route=udp://${testHost}:${udpPort}=localhost:${udp.endpoint.port}`,
    `--route=tcp://${testHost}:${literalPort}=${a.endpoint.key},${b.endpoint.key}`,
    '--relay-workers=1', // Each worker takes turns of its own.
  )
  t.match(await ask(tcpPort), { text: 'a', how: 'end' })
  const client = await udpClient(t, udpPort, testHost, local)
  t.equal(await client.ask('over UDP'), 'over UDP')
  const answers = [(await ask(literalPort)).text, (await ask(literalPort)).text]
  t.strictSame(answers.toSorted(), ['a', 'b'])
  t.strictSame(await get(usher.metrics, '/proxyMode'), { status: 200, body: 'userspace' })
  const { body: metrics } = await get(usher.metrics, '/metrics')
  t.match(metrics, '\nusher_source_age_seconds ')
  t.notMatch(metrics, 'rest_client_requests_total', 'no API server is asked')
  t.equal((await usher.status()).servicePorts.length, 3)
  usher.send('SIGTERM')
  t.strictSame(await usher.exit, { code: 0, signal: null })
})

t.test('a sidecar that nobody can reach ends with the reason', async t => {
  const taken = createServer().listen(0, testHost)
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const anyAdmin = ['metrics', 'healthz'].map(
    name => `--${name}-bind-address=127.0.0.1:0`,
  )
  const free = await freeTcpPort()
  const cases: [string[], RegExp][] = [
    [
      [`--route=tcp://${testHost}:${port}=127.0.0.1:1`, ...anyAdmin],
      new RegExp(
        `^usher: cannot listen on ${testHost}:${port}: EADDRINUSE: another process`,
      ),
    ],
    [
      ['--route=udp://198.51.100.1:53=127.0.0.1:1', ...anyAdmin],
      /^usher: cannot listen on UDP 198\.51\.100\.1:53: not an address of this host; give/,
    ],
    [
      [
        `--route=tcp://${testHost}:${free}=127.0.0.1:1`,
        `--metrics-bind-address=${testHost}:${port}`,
        '--healthz-bind-address=off',
      ],
      /^usher: the metrics server cannot listen on .*EADDRINUSE: .*--metrics-bind-address/,
    ],
  ]
  const relays = [['--relay=portable'], ['--relay=auto']]
  for (const relay of relays)
    for (const [args, said] of cases) {
      const { code, err } = await runUsher('sidecar', ...relay, ...args)
      t.equal(code, 1, args.join(' '))
      t.match(err, said)
      t.notMatch(err, /^ +at /m, 'without a stack')
    }
})

t.test('run stays up when a port is taken, and /healthz is red at once', async t => {
  const taken = createServer().listen(0, testHost)
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const file = await manifestFile(
    t,
    service('web', testHost, [{ name: 'p', port }]),
    ...slice('web', [endpoint(testHost, 1)]),
  )
  const usher = await startUsher(t, 'run', file.path)
  t.match(await get(usher.healthz, '/healthz'), { status: 503 })
  t.match((await usher.status()).unhealthy, [`cannot listen on ${testHost}:${port} for `])
  t.match(await get(usher.healthz, '/livez'), { status: 200 })
  const noServers = ['--metrics-bind-address=off', '--healthz-bind-address=off']
  const hard = ['--bind-address-hard-fail', '--proxy-mode=userspace', '--capture=listen']
  const { code, err } = await runUsher('run', file.path, ...hard, ...noServers)
  t.equal(code, 1)
  t.match(err, `usher: cannot listen on ${testHost}:${port}: EADDRINUSE`)
})

t.test('a host name that cannot be resolved is a line, without a stack', async t => {
  const port = await freeTcpPort()
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=nowhere.invalid:1`,
  )
  const record = await usher.logged('a host name could not be resolved')
  t.match(record, { why: /^cannot resolve nowhere\.invalid: / })
  t.notMatch(JSON.stringify(usher.records), 'stack')
})

t.test('a sidecar is asked how it does on this host alone', async t => {
  const help = await runUsher('sidecar', '--help')
  t.match(help.out, /127\.0\.0\.1:10256/)
  t.notMatch(help.out, /0\.0\.0\.0:10256/)
})

t.test('a wrong call exits 2 and says what would be right', async t => {
  const none = await runUsher('run')
  t.equal(none.code, 2)
  t.match(none.err, /give --kubeconfig or --master, --manifests for .*, or run in a pod/)
  const both = await runUsher('run', 'x.yaml', '--kubeconfig', 'y')
  t.equal(both.code, 2)
  t.match(both.err, /--kubeconfig.*manifests|manifests.*--kubeconfig/)
  const route = await runUsher('sidecar')
  t.equal(route.code, 2)
  t.match(route.err, 'no route given')
  const flag = await runUsher('run', 'x.yaml', '--drain-timeout', 'soon')
  t.equal(flag.code, 2)
  t.match(flag.err, /--drain-timeout.*soon/)
})

t.test(
  'manifests that cannot be read at the start exit 2, with nothing begun, and say where',
  async t => {
    const broken = await manifestFile(t, {})
    await broken.writeText('{kind: Nothing, apiVersion: v1}\n---\nmetadata: {name: [\n')
    const noServers = ['--metrics-bind-address=off', '--healthz-bind-address=off']
    const { code, out, err } = await runUsher('run', broken.path, ...noServers)
    t.equal(code, 2)
    t.equal(out, '', 'no mode was selected, no relay started')
    t.match(err, `usher: --manifests: ${broken.path} document 2: line 4: Flow`)
    t.notMatch(err, /^ +at /m, 'without a stack')
    const missing = join(t.testdir({}), 'nowhere.yaml')
    const absent = await runUsher('run', '--manifests', missing, ...noServers)
    t.equal(absent.code, 2)
    t.equal(absent.out, '')
    t.match(absent.err, `${missing}: there is no such file or directory`)
  },
)

t.test('a signal while manifests are read begins nothing', async t => {
  const many = Array.from({ length: 20_000 }, (_, i) =>
    service(`web-${i}`, testHost, [{ name: 'p', port: 80 }]),
  )
  const file = await manifestFile(t, ...many)
  const usher = launchUsher(t, 'run', file.path)
  const { pid } = usher
  await until('another process reads them', () =>
    /\d/.test(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')),
  )
  usher.send('SIGTERM')
  t.strictSame(await usher.exit, { code: 0, signal: null })
  t.match(usher.records.at(-1), { msg: 'stopped', reason: 'SIGTERM' })
  t.notMatch(JSON.stringify(usher.records), /Proxier|relay selected|draining/)
})

t.test(
  'check exits 0 for good manifests, 1 for bad ones, 2 for a wrong call',
  async t => {
    const port = await freeTcpPort()
    const good = service('web', testHost, [{ name: 'p', port }])
    const file = await manifestFile(t, good, ...slice('web', [endpoint(testHost, port)]))
    const sound = await runUsher('check', file.path)
    t.equal(sound.code, 0)
    t.match(sound.out, '0 problems')
    await file.write(good, service('far', testHost, [{ name: 'p', port: 70_000 }]))
    const bad = await runUsher('check', file.path)
    t.equal(bad.code, 1)
    t.match(bad.out, `${file.path} document 2`)
    t.match(bad.out, 'spec.ports[0].port')
    t.equal((await runUsher('check', '--quux')).code, 2)
  },
)
