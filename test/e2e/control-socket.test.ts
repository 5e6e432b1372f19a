// A process of its own: it mostly waits.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, lstatSync, renameSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { dirname } from 'node:path'
import t, { type Test } from 'tap'
import { missingPrograms } from '../support/installed.ts'
import { order, socketPath } from '../support/control-socket.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { until } from '../support/until.ts'
import { runUsher, runUsherBy, startUsher, startUsherBy } from '../support/usher.ts'
import { usherProgram } from '../support/usher-program.ts'

t.jobs = 2

const flags = async (socket: string): Promise<string[]> => [
  'sidecar',
  `--route=tcp://${testHost}:${await freeTcpPort()}=${testHost}:1?name=db`,
  `--control-socket=${socket}`,
]

const modeOf = (path: string): string => (lstatSync(path).mode & 0o7777).toString(8)

const noOneTo = { routes: ['nobody'] }

/** It has looked at the order, and knows no such route. */
const answers = async (t: Test, socket: string) =>
  t.match(await order(socket, '/pause', noOneTo), { status: 404 })

t.test('it is made for its owner alone, and removed at the end', async t => {
  const socket = await socketPath(t)
  const usher = await startUsherBy(
    t,
    ['sh', '-c', 'umask 0; exec "$@"', 'sh'],
    ...(await flags(socket)),
  )
  t.equal(modeOf(socket), '600')
  await answers(t, socket)
  const second = await runUsher(
    ...(await flags(socket)),
    '--metrics-bind-address=off',
    '--take-over=off',
  )
  t.match(second, {
    code: 1,
    err: `--control-socket ${socket}: another process listens on it`,
  })
  await answers(t, socket)

  chmodSync(socket, 0o666)
  const { problems } = await usher.status()
  t.match(problems, [{ object: `--control-socket ${socket}`, message: /become 666/ }])
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
  t.notOk(existsSync(socket))
})

t.test('what a killed Usher left is replaced, and nothing else', async t => {
  const socket = await socketPath(t)
  const killed = await startUsher(t, ...(await flags(socket)))
  killed.send('SIGKILL')
  await killed.exit
  t.ok(existsSync(socket))
  const dead = await runUsher('pause', 'db', '--control-socket', socket)
  t.match(dead, { code: 3, err: /nothing listens on it/ })
  const next = await startUsher(t, ...(await flags(socket)))
  await answers(t, socket)

  // Another takes its place: it stays when the first one ends.
  const other = createServer().listen(`${socket}2`)
  await once(other, 'listening')
  t.teardown(() => void other.close())
  renameSync(`${socket}2`, socket)
  const { problems } = await next.status()
  t.match(problems, [{ message: 'another file is in its place' }])
  next.send('SIGTERM')
  t.match(await next.exit, { code: 0 })
  t.ok(lstatSync(socket).isSocket())

  const bad = await runUsher(...(await flags(`/${'x'.repeat(102)}`)))
  t.match(bad, { code: 2, err: /has 103 bytes, and the path of a socket has 102/ })
})

t.test('errors name the variable where the path is of it', async t => {
  const socket = await socketPath(t)
  await startUsher(t, ...(await flags(socket)))
  const by = (path: string, ...args: string[]) =>
    runUsherBy(['env', `USHER_CONTROL_SOCKET=${path}`], ...args)
  const second = [...(await flags('')).slice(0, -1), '--take-over=off']
  t.match(await by(socket, ...second), {
    code: 1,
    err: `USHER_CONTROL_SOCKET=${socket}: another process listens on it`,
  })
  t.match(await by(`${socket}2`, 'status'), {
    code: 3,
    err: `usher status: USHER_CONTROL_SOCKET=${socket}2: there is no such file`,
  })
  const long = `/${'x'.repeat(102)}`
  for (const args of [['status'], second])
    t.match(await by(long, ...args), { code: 2, err: 'USHER_CONTROL_SOCKET: "/xxx' })
  t.match(await by(long, 'status', `--control-socket=${socket}`), { code: 0 })
})

t.test('clients that are slow or silent hold nothing up', async t => {
  const socket = await socketPath(t)
  await startUsher(t, ...(await flags(socket)))
  const silent = Array.from({ length: 40 }, (_, i) => {
    const client = connect({ path: socket })
    t.teardown(() => client.destroy())
    client.on('error', () => {})
    if (i % 3 === 1) client.write('POST /pause HTTP/1.1\r\nHost: a\r\nContent-Length: 50')
    if (i % 3 === 2)
      client.write('POST /pause HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"rou')
    // It never reads, and asks again and again.
    const many = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(500)
    if (i % 20 === 0) client.pause().write(many)
    else client.resume()
    return client
  })
  for (const client of silent) if (client.connecting) await once(client, 'connect')
  const began = performance.now()
  await answers(t, socket)
  t.ok(performance.now() - began < 5000, 'before any of them is given up')
  const half = silent[38]
  await until('half a request is given up', () => half?.closed === true)
})

const skip = (process.getuid?.() !== 0 && 'needs root') || missingPrograms('setpriv')

t.test('another user has no right to it', { skip }, async t => {
  const socket = await socketPath(t)
  await startUsher(t, ...(await flags(socket)))
  chmodSync(dirname(socket), 0o755)
  const as = (...args: string[]) =>
    spawnSync('setpriv', ['--reuid=65534', '--clear-groups', process.execPath, ...args], {
      encoding: 'utf8',
    })
  const { status, stderr } = as(usherProgram, 'pause', 'db', '--control-socket', socket)
  t.equal(status, 3)
  t.match(stderr, /permission denied/i)
  // Not by the client's own judgement: by the kernel's.
  const dialled = as(
    '-e',
    `require('net').connect(${JSON.stringify(socket)}).on('error', e => console.error(e.code))`,
  )
  t.match(dialled.stderr, /EACCES/)
})

t.test('there is none where none is asked for', async t => {
  const usher = await startUsher(t, ...(await flags('')))
  t.notOk(usher.records.some(({ msg }) => msg === 'control socket is listening'))
  t.notOk(
    usher.records.some(({ msg }) => / Proxier/.test(msg)),
    "kube-proxy's word",
  )
})
