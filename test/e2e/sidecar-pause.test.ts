// A process of its own: it mostly waits.
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { order, socketPath } from '../support/control-socket.ts'
import { dataPlanes, serving } from '../support/data-plane.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../support/ports.ts'
import { ask, dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, runUsher, startUsher, startUsherBy } from '../support/usher.ts'

t.jobs = 2

const route = (name: string, listen: string, endpoint: string): string =>
  `  - {name: ${name}, listen: "${listen}", endpoints: ["${endpoint}"]}\n`

const howItEnds = (socket: Socket): Promise<string> =>
  new Promise(resolve => {
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
    socket.on('end', () => resolve('end'))
  })

/** A sidecar with the routes db, a socket of TCP, and dns, one of UDP. */
const setUp = async (t: Test) => {
  const [port, udp] = [await freeTcpPort(), await freeUdpPort()]
  const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
  const path = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const write = (endpoint: string) =>
    writeFile(
      path,
      `routes:\n${route('db', `tcp://${testHost}:${port}`, endpoint)}${route('dns', `udp://${testHost}:${udp}`, endpoint)}`,
    )
  await write(a.endpoint.key)
  const socket = await socketPath(t)
  // The variable does what the flag does.
  const env = ['env', `USHER_CONTROL_SOCKET=${socket}`]
  const usher = await startUsherBy(t, env, 'sidecar', `--config=${path}`)
  const db = async () => {
    const { servicePorts } = await usher.status()
    return servicePorts.find(({ servicePort }) => servicePort === 'route/db')
  }
  const waiting = async () => (await db())?.held
  const command = (...args: string[]) => runUsher(...args, '--control-socket', socket)
  return { usher, port, a, b, write, socket, db, waiting, command }
}

t.test('a switchover', async t => {
  const { usher, port, a, b, write, socket, db, waiting, command } = await setUp(t)
  const open = [dial(t, port), dial(t, port)]
  for (const client of open) await once(client, 'data')
  const ends = Promise.all(open.map(howItEnds))
  t.match(await command('pause', 'db', '--reset'), {
    code: 0,
    out: 'db: paused until it is resumed\n',
    err: '',
  })
  t.strictSame(await ends, ['ECONNRESET', 'ECONNRESET'])

  const hungUp = dial(t, port)
  hungUp.on('error', () => {})
  const answers = Array.from({ length: 100 }, () => firstWord(port))
  await until('they wait', async () => (await waiting()) === 101)
  hungUp.destroy()
  await until('one has left', async () => (await waiting()) === 100)
  t.equal(a.accepted, 2)
  const twice = await Promise.all(
    [60_000, 120_000].map(forMs => order(socket, '/pause', { routes: ['db'], forMs })),
  )
  for (const { status, body } of twice) {
    t.equal(status, 200)
    t.match(body, { routes: [{ route: 'db', wasPaused: true }] })
  }
  t.match(await db(), { paused: { since: /^20/, until: /^20/ }, held: 100 })
  const { out } = await runUsher('status', '--address', usher.metrics)
  t.match(out, /^route\/db: paused for .* 100 clients wait$/m)
  const { body: metrics } = await get(usher.metrics, '/metrics')
  t.match(metrics, 'usher_paused{service_port="route/db"} 1\n')
  t.match(metrics, 'usher_connections_held{service_port="route/db",protocol="TCP"} 100\n')

  await write(b.endpoint.key)
  await usher.logged('routes file reloaded')
  await until(
    'it is read',
    async () => (await db())?.endpoints[0]?.endpoint === b.endpoint.key,
  )
  t.match(await db(), { paused: { since: /^20/ }, held: 100 })
  t.match(await command('resume', 'db'), { code: 0, out: 'db: resumed\n' })
  const served = await Promise.all(answers)
  t.equal(served.filter(word => word === 'b').length, 100)
  t.equal(a.accepted, 2, 'none has come to the former primary')
  t.equal((await db())?.paused, null)
  t.match(await command('resume', 'db'), { code: 0, out: 'db: was not paused\n' })
  await usher.logged('paused by order', { route: 'db', reset: true })
  await usher.logged('resumed by order', { route: 'db' })
})

t.test('a pause that ends by itself, and wrong calls', async t => {
  const { usher, port, socket, db, command } = await setUp(t)
  t.match(await command('pause', 'bd'), {
    code: 1,
    out: '',
    err: 'usher pause: there is no route "bd"; did you mean db?\n',
  })
  t.match(await order(socket, '/pause', { routes: ['db', 'dns'] }), {
    status: 409,
    body: { error: { code: 'NOT_TCP', message: /dns is UDP/ } },
  })
  t.equal((await db())?.paused, null, 'all or nothing')
  t.match(await order(socket, '/pause', { routes: ['db'], forMs: 400 }), { status: 200 })
  t.equal(await firstWord(port), 'a')
  await usher.logged('a pause has ended', { route: 'db', why: 'its time is over' })
  t.match(await command('pause', 'db', '--for', '1ms'), {
    code: 1,
    out: '',
    err: /^usher pause: db is no longer paused/,
  })
  const none = await command('pause')
  t.match(none, { code: 2, err: 'no route given' })
  t.match(await runUsher('pause', 'db'), { code: 2, err: 'no control socket given' })
})

const skip = process.platform !== 'linux' && 'looks into /proc'

t.test('a Service goes on being paused when the data plane dies', { skip }, async t => {
  const port = await freeTcpPort()
  const socket = await socketPath(t)
  const usher = await serving(t, port, ['--control-socket', socket])
  t.match(await order(socket, '/pause', { routes: ['default/web'], reset: true }), {
    status: 200,
    body: { routes: [{ route: 'default/web:p', paused: { until: null } }] },
  })
  const waits = async (clients: number) =>
    until('they wait', async () => (await usher.servicePort('web:p')).held === clients)
  const lost = ask(port)
  await waits(1)
  const [pid = 0] = dataPlanes(usher.pid)
  process.kill(pid, 'SIGKILL')
  t.not((await lost).text, 'a')
  await until('there is another', () => dataPlanes(usher.pid).some(one => one !== pid))
  let answer = ask(port)
  // Until it listens clients are refused.
  await until('one waits', async () => {
    const { held: waiting } = await usher.servicePort('web:p')
    if (waiting === 0 && (await Promise.race([answer, Promise.resolve()])) !== undefined)
      answer = ask(port)
    return (waiting ?? 0) > 0
  })
  t.match(await order(socket, '/resume', { routes: ['default/web:p'] }), { status: 200 })
  t.equal((await answer).text, 'a')
})

t.test(
  'clients wait as long as the hold of the route, and a restart forgets the pause',
  async t => {
    const port = await freeTcpPort()
    const a = await namedEcho(t, 'a')
    const socket = await socketPath(t)
    const flags = [
      `--route=tcp://${testHost}:${port}=${a.endpoint.key}?name=db&hold=500ms`,
      `--control-socket=${socket}`,
    ]
    const first = await startUsher(t, 'sidecar', ...flags)
    await order(socket, '/pause', { routes: ['db'] })
    t.match(await ask(port), { text: '', how: 'ECONNRESET' }, 'its hold is over')
    first.send('SIGTERM')
    t.match(await first.exit, { code: 0 })
    await startUsher(t, 'sidecar', ...flags)
    t.equal(await firstWord(port), 'a')
  },
)
