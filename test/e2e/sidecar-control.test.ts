// A process of its own: it mostly waits.
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { order, socketPath } from '../support/control-socket.ts'
import { dataPlanes, serving } from '../support/data-plane.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { ask, dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, runUsher, startUsher } from '../support/usher.ts'

t.jobs = 2

interface Listed {
  readonly items: readonly Readonly<Record<string, unknown>>[]
}

/** A sidecar with the routes db and other, to the same endpoints, from a file. */
const setUp = async (t: Test, options = '') => {
  const [port, second] = [await freeTcpPort(), await freeTcpPort()]
  const [a, b] = [await namedEcho(t, 'a'), await namedEcho(t, 'b')]
  const socket = await socketPath(t)
  const path = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const write = (...endpoints: string[]) =>
    writeFile(
      path,
      ['db', 'other']
        .map((name, i) => {
          const listen = `tcp://${testHost}:${i === 0 ? port : second}`
          return `  - {name: ${name}, listen: "${listen}", endpoints: [${endpoints.map(one => `"${one}"`).join(', ')}]${options}}\n`
        })
        .reduce((text, route) => text + route, 'routes:\n'),
    )
  await write(a.endpoint.key, b.endpoint.key)
  const flags = [`--config=${path}`, `--control-socket=${socket}`]
  const usher = await startUsher(t, 'sidecar', ...flags)
  const command = (...args: string[]) => runUsher(...args, '--control-socket', socket)
  const list = async (...args: string[]): Promise<Listed['items']> => {
    const { out } = await command('get', ...args, '-o', 'json')
    return (JSON.parse(out) as Listed).items
  }
  const words = async (of = port, count = 6): Promise<string> => {
    const said = await Promise.all(Array.from({ length: count }, () => firstWord(of)))
    return [...new Set(said)].toSorted().join()
  }
  return { usher, port, second, a, b, write, socket, command, list, words, flags }
}

const open = async (t: Test, port: number): Promise<Socket> => {
  const socket = dial(t, port)
  socket.on('error', () => {})
  await once(socket, 'data')
  return socket
}

const closed = (socket: Socket): Promise<void> =>
  new Promise(resolve => socket.on('close', () => resolve()))

t.test('an endpoint is drained in one route, and in all', async t => {
  const { usher, port, second, a, b, write, command, list, words } = await setUp(t)
  const key = a.endpoint.key
  t.equal(await words(), 'a,b')
  t.match(await command('drain', key, '--route', 'db'), {
    code: 0,
    out: `${key} of db: drained until it is undrained; open connections stay\n`,
    err: '',
  })
  t.equal(await words(), 'b')
  t.equal(await words(second), 'a,b', 'two routes have it')
  t.match(await command('drain', key, '--for', '1h'), {
    code: 0,
    out: /of db: was already drained.*\n.* of other: drained until 20/,
  })
  t.equal(await words(second), 'b')
  const last = [b.endpoint.key, '--route', 'other']
  t.match(await command('drain', ...last), {
    code: 0,
    err: 'usher drain: other has no endpoint left: new clients are refused',
  })
  t.match(await command('undrain', ...last), { code: 0, err: /^$/ })

  const ofDb = (await list('endpoints', '--route', 'db')).map(one => [
    one['name'],
    one['state'],
  ])
  t.strictSame(
    new Map(ofDb as [string, string][]),
    new Map([
      [key, 'drained'],
      [b.endpoint.key, 'ready'],
    ]),
  )
  const { out } = await runUsher('status', '--address', usher.metrics)
  t.match(
    out,
    new RegExp(
      `^route/db: ${key} drained for .* for another (1h|59m).*; 0 still open$`,
      'm',
    ),
  )
  const { body } = await get(usher.metrics, '/metrics')
  t.match(body, `usher_endpoint_drained{service_port="route/db",endpoint="${key}"} 1\n`)
  t.match(body, 'usher_operator_orders{order="drain"} 2\n')

  await write(key, b.endpoint.key, `${testHost}:1`)
  await until('it is read', async () => (await list('endpoints')).length === 6)
  t.equal(await words(), 'b', 'a reload changes nothing about it')
  await write(b.endpoint.key)
  await usher.logged('a drain has ended', {
    route: 'db',
    endpoint: key,
    why: 'it is gone',
  })
  await write(key, b.endpoint.key)
  await until('it is back', async () => (await words()) === 'a,b')

  await command('drain', key, b.endpoint.key)
  t.match(
    await ask(port),
    { text: '', how: 'ECONNREFUSED' },
    'never all as all are drained',
  )
  t.match(await list('routes'), [{ state: 'down' }, { state: 'down' }])
  const twice = await Promise.all([command('undrain', key), command('undrain', key)])
  for (const { code } of twice) t.equal(code, 0)
  t.equal(await words(), 'a')
})

t.test('clients wait where all endpoints are drained and they may', async t => {
  const { port, a, b, command, list } = await setUp(t, ', hold: 30s')
  await command('drain', a.endpoint.key, b.endpoint.key)
  const answer = firstWord(port)
  await until('it waits', async () =>
    (await list('routes')).some(({ name, waiting }) => name === 'db' && waiting === 1),
  )
  t.match(await list('connections'), [{ route: 'db', state: 'waiting', endpoint: '' }])
  await command('undrain', b.endpoint.key)
  t.equal(await answer, 'b')
})

t.test('weights, by order and as the source says', async t => {
  const { usher, port, a, b, command, list, flags } = await setUp(t)
  await command('weight', a.endpoint.key, '3', '--route', 'db')
  const served = { a: 0, b: 0 }
  for (let i = 0; i < 40; i += 1) served[(await firstWord(port)) as 'a' | 'b'] += 1
  t.strictSame(served, { a: 30, b: 10 })
  t.match(await command('weight', a.endpoint.key, '--reset'), {
    code: 0,
    out: /weight 1, as its source says, was 3/,
  })
  await command('weight', b.endpoint.key, '0')
  for (let i = 0; i < 4; i += 1) t.equal(await firstWord(port), 'a')
  t.match(await command('weight', b.endpoint.key, '300'), { code: 2 })
  usher.send('SIGTERM')
  await usher.exit
  await startUsher(t, 'sidecar', ...flags)
  t.match(
    await list('endpoints'),
    Array.from({ length: 4 }, () => ({ weight: 1, weightSince: null })),
  )
})

t.test('connections are listed and closed', async t => {
  const { port, a, command, list } = await setUp(t)
  const sockets = [await open(t, port), await open(t, port), await open(t, port)]
  const all = await list('connections', '--route', 'db')
  t.equal(all.length, 3)
  t.strictSame(
    new Set(all.map(one => one['client'])),
    new Set(sockets.map(one => `${one.localAddress}:${one.localPort}`)),
  )
  t.strictSame(await list('connections', '--route', 'other'), [])
  const name = String(all[0]?.['name'])
  t.match(await command('close', name), { code: 0, out: `${name}: closed\n` })
  t.match(await command('close', name, 'x'), {
    code: 1,
    err: `usher close: ${name} is not open: it has ended, or never was\nusher close: x is not open: it has ended, or never was\n`,
  })
  await until('one is gone', () => sockets.filter(one => one.destroyed).length === 1)
  const ends = sockets.filter(one => !one.destroyed).map(closed)
  await command('drain', a.endpoint.key, '--close', 'all')
  await Promise.race(ends)
  t.equal(
    (await list('connections')).filter(one => one['endpoint'] === a.endpoint.key).length,
    0,
  )
  const table = await command('get', 'connections')
  t.match(
    table.out,
    /^NAME +ROUTE +CLIENT +ENDPOINT +STATE +AGE +TO-BACKEND +TO-CLIENT\n/,
  )
})

t.test('a client that never reads a long answer holds nothing up', async t => {
  const { port, socket, command } = await setUp(t)
  const open400 = await Promise.all(Array.from({ length: 400 }, () => open(t, port)))
  const deaf = connect({ path: socket }).pause()
  deaf.on('error', () => {})
  t.teardown(() => deaf.destroy())
  const asked = 'POST /connections HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}'
  deaf.write(asked.repeat(50))
  const { code } = await command('drain', '127.0.0.1:1')
  t.equal(code, 1)
  t.equal(await firstWord(port).then(word => word.length), 1)
  t.match(await order(socket, '/close', { connections: ['x'.repeat(70_000)] }), {
    status: 413,
  })
  for (const one of open400) one.destroy()
})

const skip = process.platform !== 'linux' && 'looks into /proc'

t.test(
  'orders outlive the data plane, and names of connections do not',
  { skip },
  async t => {
    const port = await freeTcpPort()
    const socket = await socketPath(t)
    const usher = await serving(t, port, ['--control-socket', socket])
    const command = (...args: string[]) => runUsher(...args, '--control-socket', socket)
    const items = async (kind: string) => {
      const { out } = await command('get', kind, '-o', 'json')
      return (JSON.parse(out) as Listed).items
    }
    const name = String((await items('endpoints'))[0]?.['name'])
    await command('drain', name)
    t.match(await ask(port), { how: 'ECONNREFUSED' })
    await command('undrain', name)
    const [pid = 0] = dataPlanes(usher.pid)
    await command('weight', name, '7')
    await command('drain', name, '--close', 'idle')
    process.kill(pid, 'SIGKILL')
    await until('there is another', () => dataPlanes(usher.pid).some(one => one !== pid))
    t.match(await items('endpoints'), [{ state: 'drained', weight: 7 }])
    await until('it has all', async () => (await usher.status()).healthy)
    t.match(await ask(port), { how: 'ECONNREFUSED' })
    t.match(await command('undrain', name), { code: 0, out: /undrained/ })
    t.equal((await ask(port)).text, 'a')
  },
)
