// A process of its own: it starts many.
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { order, socketPath } from '../support/control-socket.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho, tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import {
  get,
  launchUsher,
  launchUsherBy,
  runUsher,
  startUsher,
  startUsherBy,
  type Usher,
} from '../support/usher.ts'

// They mostly wait.
t.jobs = 4

/** A sidecar with a route to an echo that says its name first. */
const setUp = async (t: Test) => {
  const port = await freeTcpPort()
  const backend = await namedEcho(t, 'a')
  const socket = await socketPath(t)
  const file = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const write = (...endpoints: string[]) =>
    writeFile(
      file,
      `routes: [{name: db, listen: "tcp://${testHost}:${port}", endpoints: ${JSON.stringify(endpoints)}}]`,
    )
  await write(backend.endpoint.key)
  const flags = [
    'sidecar',
    `--config=${file}`,
    `--control-socket=${socket}`,
    '--drain-timeout=30s',
  ]
  const open = async () => {
    const client = dial(t, port)
    const seen = { text: '', how: 'open' }
    client.on('data', (data: Buffer) => (seen.text += data.toString()))
    client.on('end', () => (seen.how = 'ended'))
    client.on('error', (error: NodeJS.ErrnoException) => (seen.how = String(error.code)))
    await until('it is served', () => seen.text === 'a')
    const says = async (word: string): Promise<void> => {
      const before = seen.text
      client.write(word)
      await until(
        'it has an echo',
        () => seen.text === before + word || seen.how !== 'open',
      )
      if (seen.text !== before + word) throw new Error(`it was cut: ${seen.how}`)
    }
    return { client, seen, says }
  }
  return { port, backend, socket, file, write, flags, open }
}

const counterOf = (body: string, name: string): number =>
  body
    .split('\n')
    .filter(line => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)

const skip = linuxRelaySkip()

t.test('ten in a row, while clients come, go and stay', { skip }, async t => {
  const { port, flags, open, socket } = await setUp(t)
  let usher: Usher = await startUsher(t, ...flags)
  const stays = await Promise.all(Array.from({ length: 20 }, open))
  const wrong: string[] = []
  const churn = { isOver: false, count: 0 }
  const churning = Array.from({ length: 4 }, async () => {
    while (!churn.isOver) {
      const word = await firstWord(port)
      if (word !== 'a') wrong.push(word)
      churn.count += 1
      await sleep(2)
    }
  })
  const names = ['usher_connections_accepted_total', 'usher_relayed_bytes_total']
  const figures = async (of: Usher): Promise<readonly number[]> => {
    const { body } = await get(of.metrics, '/metrics')
    return names.map(name => counterOf(body, name))
  }
  for (let turn = 0; turn < 10; turn += 1) {
    const before = await figures(usher)
    const next = await startUsher(t, ...flags)
    const served = performance.now()
    t.strictSame(await usher.exit, { code: 0, signal: null })
    t.ok(performance.now() - served < 2000, 'it has ended by then')
    const after = await figures(next)
    names.forEach((name, i) =>
      t.ok(
        (after[i] ?? 0) >= (before[i] ?? 0) && (before[i] ?? 0) > 0,
        `${name}: ${before[i]}, ${after[i]}`,
      ),
    )
    t.match(await get(next.healthz, '/healthz'), { status: 200 })
    await Promise.all(stays.map(one => one.says('x')))
    const { out } = await runUsher('status', '--control-socket', socket, '--json')
    t.match(JSON.parse(out), { tookOver: { pid: usher.pid, lost: '' } })
    usher = next
  }
  churn.isOver = true
  await Promise.all(churning)
  t.strictSame(wrong, [], `0 of ${churn.count} are refused or cut`)
  t.ok(stays.every(({ seen }) => seen.how === 'open'))
  t.comment(`${churn.count} clients`)
})

t.test('no take-over: --take-over=off', { skip }, async t => {
  const { flags, open } = await setUp(t)
  const usher = await startUsher(t, ...flags)
  const other = launchUsher(t, ...flags, '--take-over=off')
  t.match(await other.exit, { code: 1 })
  const one = await open()
  await one.says('x')
  usher.send('SIGTERM')
  one.client.end()
  t.match(await usher.exit, { code: 0 })
})

t.test('endpoints that are down until their first check', { skip }, async t => {
  const { flags, port, file } = await setUp(t)
  // Of HTTP, and it takes its time.
  const slow = await tcpBackend(t, socket => {
    socket.once('data', () =>
      setTimeout(() => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na'), 700),
    )
  })
  await writeFile(
    file,
    `routes: [{name: db, listen: "tcp://${testHost}:${port}", endpoints: ["${slow.endpoint.key}"], check: {type: http, interval: 5s, timeout: 5s}}]`,
  )
  const asked = (): Promise<string> =>
    new Promise(resolve => {
      const client = dial(t, port)
      client.on('data', answer => resolve(String(answer).slice(0, 12)))
      client.on('error', ({ message }) => resolve(message))
      client.write('GET / HTTP/1.0\r\n\r\n')
    })
  const usher = await startUsher(t, ...flags)
  await until('its check has found it up', async () => (await asked()) === 'HTTP/1.1 200')
  const answers: Promise<string>[] = []
  const timer = setInterval(() => answers.push(asked()), 20)
  t.teardown(() => clearInterval(timer))
  const next = await startUsher(t, ...flags)
  t.match(await usher.exit, { code: 0 })
  clearInterval(timer)
  const wrong = (await Promise.all(answers)).filter(one => one !== 'HTTP/1.1 200')
  t.strictSame(wrong, [], `of ${answers.length}`)
  t.match((await next.status()).tookOver, { lost: '' })
})

const http = (status: string, body: string): string =>
  `HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\n\r\n${body}`

const others: Readonly<Record<string, string | undefined>> = {
  'leaves at once': '',
  'speaks no HTTP': '220 ready\r\n',
  'knows nothing of it': http('404 Not Found', ''),
  refuses: http('409 Conflict', '{"error":{"code":"NOT_NOW","message":"it is ending"}}'),
  'says something else': http('200 OK', '{}'),
  'says no JSON': http('200 OK', 'no'),
  'is silent': undefined,
}

for (const [what, answer] of Object.entries(others))
  t.test(`what answers at the control socket ${what}`, { skip }, async t => {
    const { flags, socket } = await setUp(t)
    const server = createServer(one => {
      one.on('error', () => {})
      one.once('data', () => (answer === undefined ? undefined : one.end(answer)))
    })
    server.listen(socket)
    await once(server, 'listening')
    t.teardown(() => server.close())
    // As Usher's is.
    await chmod(socket, 0o600)
    const { code, err } = await runUsher(...flags)
    t.equal(code, 1)
    t.match(
      err,
      /another process listens on the control socket .*nothing can be taken over.*end it first/,
    )
    t.notMatch(err, /Cannot read|at .*\.[tj]s/)
    t.comment(err)
  })

t.test(
  'one with the portable relay comes: it gets the addresses soon',
  { skip },
  async t => {
    const { flags, open } = await setUp(t)
    const old = await startUsher(t, ...flags)
    const one = await open()
    const next = await startUsher(t, ...flags, '--relay=portable')
    await one.says('drains')
    const two = await open()
    await two.says('new')
    one.client.end()
    t.match(await old.exit, { code: 0 })
    await two.says('still')
    await next.logged('nothing was taken over from the running Usher')
  },
)

t.test(
  'one with the portable relay goes: the next one gets the addresses soon',
  { skip },
  async t => {
    const { flags, open } = await setUp(t)
    const old = await startUsher(t, ...flags, '--relay=portable')
    const one = await open()
    await startUsher(t, ...flags)
    await one.says('drains')
    const two = await open()
    await two.says('new')
    one.client.end()
    t.match(await old.exit, { code: 0 })
    await two.says('still')
  },
)

t.test('the next one has routes that are wrong', { skip }, async t => {
  const { flags, open, file } = await setUp(t)
  const old = await startUsher(t, ...flags)
  const one = await open()
  await writeFile(
    `${file}.wrong`,
    'routes: [{name: db, listen: "nowhere", endpoints: 5}]',
  )
  const { code } = await runUsher(
    ...flags.map(flag => flag.replace(file, `${file}.wrong`)),
  )
  t.not(code, 0)
  await one.says('as before')
  await (await open()).says('new')
  t.notOk(old.records.some(({ msg }) => /taking over/.test(msg)))
})

t.test('the next one is killed as it begins to take over', { skip }, async t => {
  const { flags, open } = await setUp(t)
  const old = await startUsher(t, ...flags)
  const one = await open()
  const next = launchUsher(t, ...flags)
  await old.logged('another Usher is taking over')
  next.send('SIGKILL')
  await next.exit
  // It may have been too late for that.
  await Promise.race([
    old.logged('the other Usher has not taken over; this one serves on as before'),
    old.logged('handed over to another Usher'),
  ])
  if (!old.records.some(({ msg }) => msg.startsWith('handed over'))) {
    await one.says('as before')
    await (await open()).says('new')
    const third = await startUsher(t, ...flags)
    t.match(await old.exit, { code: 0 })
    await one.says('with the third')
    t.match(await third.status(), { tookOver: { pid: old.pid } })
  }
})

t.test('another one has come first, and never goes on', { skip }, async t => {
  const { flags, open, socket } = await setUp(t)
  const old = await startUsher(t, ...flags)
  const one = await open()
  const first = { pid: process.pid, version: '0', begin: true, hasRelay: true }
  t.match(await order(socket, '/take-over', first), { status: 200 })
  const { code, err } = await runUsher(...flags)
  t.equal(code, 1)
  t.match(err, /can't be taken over from now: PID \d+ is taking over/)
  const pause = () => runUsher('pause', 'db', '--control-socket', socket)
  const paused = await pause()
  t.equal(paused.code, 1, 'an order would not be known to the next one')
  t.match(paused.err, /is taking over; give the order to that one, in a moment/)
  await one.says('as before')
  await old.logged('the other Usher has not taken over; this one serves on as before')
  await (await open()).says('new')
  t.equal((await pause()).code, 0, 'it is this one’s again')
  t.equal((await runUsher('resume', 'db', '--control-socket', socket)).code, 0)
  await startUsher(t, ...flags)
  t.match(await old.exit, { code: 0 })
  await one.says('with the next')
})

t.test('the old one is told to end amid it', { skip }, async t => {
  const { flags, open } = await setUp(t)
  const old = await startUsher(t, ...flags)
  const one = await open()
  const next = launchUsher(t, ...flags)
  await old.logged('another Usher is taking over')
  old.send('SIGTERM')
  await next.logged('serving')
  const two = await open()
  await two.says('new')
  await one.says('goes on')
  one.client.end()
  t.match(await old.exit, { code: 0 })
})

t.test(
  'one of another user',
  { skip: skip || (process.getuid?.() !== 0 && 'needs root') },
  async t => {
    const { flags, open, socket } = await setUp(t)
    await chmod(dirname(socket), 0o777)
    const old = await startUsherBy(
      t,
      ['setpriv', '--reuid=65534', '--clear-groups'],
      ...flags,
    )
    const one = await open()
    const next = launchUsherBy(t, [], ...flags)
    await Promise.race([next.exit, next.logged('serving')])
    await one.says('goes on')
    const two = await open()
    await two.says('new')
    one.client.end()
    t.match(await old.exit, { code: 0 })
    await two.says('still')
    await next.logged('nothing was taken over from the running Usher')
  },
)
