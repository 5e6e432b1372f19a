// A process of its own: long, and it mostly waits.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ask as askHttp } from '../observe/admin-client.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { echoUdp } from '../support/udp-backend.ts'
import { udpClient } from '../support/udp-client.ts'
import { until } from '../support/until.ts'
import { get, runUsher, startUsher } from '../support/usher.ts'

t.jobs = 4

/** A sidecar with one route, to a backend that says `a`. */
const sidecar = async (t: Test, ...flags: string[]) => {
  const port = await freeTcpPort()
  const backend = await namedEcho(t, 'a')
  const route = `--route=tcp://${testHost}:${port}=${backend.endpoint.key}`
  const usher = await startUsher(t, 'sidecar', route, ...flags)
  return { usher, port, backend }
}

/** The same, and a client in the middle of a connection. */
const withOpenConnection = async (t: Test, ...flags: string[]) => {
  const running = await sidecar(t, ...flags)
  const client = dial(t, running.port)
  client.on('error', () => {})
  await once(client, 'data')
  return { ...running, client }
}

const ended = { code: 0, signal: null }

const relays = ['--relay=auto', '--relay=portable']

t.test('it exits 0 when connections had to be reset, and says how many', async t => {
  for (const relay of relays) {
    const { usher, client } = await withOpenConnection(t, relay, '--drain-timeout=100ms')
    const failed = once(client, 'end').catch((error: NodeJS.ErrnoException) => error.code)
    usher.send('SIGTERM')
    t.equal(await failed, 'ECONNRESET')
    t.strictSame(await usher.exit, ended)
    t.match(await usher.logged('stopped'), { reset: 1 })
  }
})

t.test('a second signal ends it at once, and that is 0 too', async t => {
  for (const second of ['SIGTERM', 'SIGINT'] as const) {
    const { usher } = await withOpenConnection(t)
    usher.send('SIGTERM')
    await usher.logged('stopping: draining')
    usher.send(second)
    t.strictSame(await usher.exit, ended)
    await usher.logged('second signal: ending at once', { signal: second })
  }
})

t.test('it lingers: accepts, is red on /healthz and green on /livez', async t => {
  const { usher, port } = await sidecar(t, '--linger=2s')
  const since = performance.now()
  usher.send('SIGTERM')
  t.match(await usher.logged(/^stopping: lingering/), {
    reason: 'SIGTERM',
    lingerMs: 2000,
  })
  t.equal(await firstWord(port), 'a', 'a new connection')
  t.match(await get(usher.healthz, '/healthz'), { status: 503 })
  t.match(await get(usher.healthz, '/livez'), { status: 200 })
  t.equal((await usher.status()).draining, true)
  t.equal(await firstWord(port), 'a', 'and another')
  t.strictSame(await usher.exit, ended)
  t.ok(performance.now() - since >= 1990, 'not before its time')
  t.match(await usher.logged('stopped'), { reset: 0 })
})

t.test('what is open when lingering is over may finish', async t => {
  const { usher, port, client } = await withOpenConnection(t, '--linger=100ms')
  usher.send('SIGTERM')
  await usher.logged('stopping: draining')
  await until('nobody new is accepted', async () => {
    return (await firstWord(port)) === 'ECONNREFUSED'
  })
  client.write('still here?')
  t.equal(String(await once(client, 'data')), 'still here?')
  client.end()
  t.strictSame(await usher.exit, ended)
  t.match(await usher.logged('stopped'), { reset: 0 })
})

t.test(
  'a second signal ends the lingering, and connections may still finish',
  async t => {
    const { usher, client } = await withOpenConnection(t, '--linger=1h')
    usher.send('SIGTERM')
    await usher.logged(/^stopping: lingering/)
    usher.send('SIGINT')
    await usher.logged('stopping: draining')
    client.write('still here?')
    t.equal(String(await once(client, 'data')), 'still here?')
    client.end()
    t.strictSame(await usher.exit, ended)
  },
)

t.test('it ends when it has been idle, counted from the first connection on', async t => {
  for (const relay of relays) {
    const flags = ['--exit-when-idle=200ms', '--linger=1h']
    const { usher, port } = await sidecar(t, relay, ...flags)
    await sleep(500)
    const client = dial(t, port)
    t.equal(String(await once(client, 'data')), 'a', 'nobody has come before')
    await sleep(500)
    client.write('b')
    t.equal(String(await once(client, 'data')), 'b', 'an open one counts, idle or not')
    const since = performance.now()
    client.end()
    t.strictSame(await usher.exit, ended)
    t.ok(performance.now() - since >= 190)
    const { reason } = await usher.logged('stopping: draining')
    t.match(reason, /^nothing has been open for \d{3,} ms \(--exit-when-idle\)$/)
  }
})

t.test('a connection that comes and goes at once counts, and so does a flow', async t => {
  const [tcp, udp] = [await freeTcpPort(), await freeUdpPort()]
  const backend = await echoUdp(t)
  const dead = await freeTcpPort()
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${tcp}=${testHost}:${dead}`,
    `--route=udp://${testHost}:${udp}=${backend.endpoint.key}`,
    '--exit-when-idle=800ms',
    '--udp-timeout=300ms',
  )
  t.equal(await firstWord(tcp), 'ECONNRESET', 'nobody is there')
  await sleep(500)
  const client = await udpClient(t, udp)
  const since = performance.now()
  t.equal(await client.ask('over UDP'), 'over UDP')
  t.strictSame(await usher.exit, ended)
  t.ok(performance.now() - since >= 1050, 'when the flow is over, and then its time')
})

t.test('POST /quitquitquit is SIGTERM, for programs of this host', async t => {
  const { usher, client, port } = await withOpenConnection(
    t,
    '--quitquitquit',
    '--linger=1h',
  )
  const request = (method: string, headers = {}) =>
    askHttp(usher.metrics, '/quitquitquit', { method, headers })
  for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS']) {
    const { status, headers } = await request(method)
    t.match({ status, allow: headers.allow }, { status: 405, allow: 'POST' }, method)
  }
  for (const headers of [
    { origin: 'http://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-origin' },
    { host: 'evil.example' },
  ])
    t.match(await request('POST', headers), { status: 403 }, JSON.stringify(headers))
  t.equal((await usher.status()).draining, false, 'none of them has done anything')
  t.match(await request('POST'), { status: 200, body: 'stopping\n' })
  await usher.logged(/^stopping: lingering/, { reason: 'POST /quitquitquit' })
  t.equal(await firstWord(port), 'a')
  t.match(await request('POST'), { status: 200 }, 'the second ends the lingering')
  await usher.logged('stopping: draining')
  t.match(await request('POST'), { status: 200 }, 'the third has nothing to do')
  client.write('still here?')
  t.equal(String(await once(client, 'data')), 'still here?')
  client.end()
  t.strictSame(await usher.exit, ended)
})

t.test('its caller has the answer though nothing holds up the end', async t => {
  const { usher } = await sidecar(t, '--quitquitquit')
  const reply = await askHttp(usher.metrics, '/quitquitquit', { method: 'POST' })
  t.match(reply, { status: 200, body: 'stopping\n' })
  t.strictSame(await usher.exit, ended)
})

t.test('there is no /quitquitquit unless it is asked for, and on loopback', async t => {
  const { usher } = await sidecar(t)
  const reply = await askHttp(usher.metrics, '/quitquitquit', { method: 'POST' })
  t.equal(reply.status, 404)
  const cases = [
    ['off', 'is off'],
    ['0.0.0.0:0', 'is 0.0.0.0:0'],
    ['192.0.2.1:1', 'is 192.0.2.1:1'],
    ['[::]:1', String.raw`is \[::\]:1`],
  ]
  for (const [bind, said] of cases) {
    const { code, err } = await runUsher(
      'sidecar',
      '--route=tcp://127.0.0.1:1=127.0.0.1:2',
      '--quitquitquit',
      `--metrics-bind-address=${bind}`,
    )
    t.equal(code, 2)
    t.match(err, new RegExp(`--quitquitquit: .*loopback.*${said}; give`))
  }
})

t.test('it has one worker unless told otherwise', { skip: linuxRelaySkip() }, async t => {
  const one = await sidecar(t)
  t.match(await one.usher.logged('relay selected'), { workers: 1 })
  const two = await sidecar(t, '--relay-workers=2')
  t.match(await two.usher.logged('relay selected'), { workers: 2 })
})

t.test('it is ready when it listens, whatever becomes of its backends', async t => {
  const [dead, unnamed] = [await freeTcpPort(), await freeTcpPort()]
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${dead}=${testHost}:${await freeTcpPort()}`,
    `--route=tcp://${testHost}:${unnamed}=nowhere.invalid:1`,
  )
  await usher.logged('a host name could not be resolved')
  const answers = async () => [
    (await get(usher.healthz, '/healthz')).status,
    (await get(usher.healthz, '/livez')).status,
  ]
  t.strictSame(await answers(), [200, 200])
  t.equal(await firstWord(dead), 'ECONNRESET')
  t.match(await firstWord(unnamed), /ECONNRE/)
  t.strictSame(await answers(), [200, 200], 'nor when clients have found out')
})
