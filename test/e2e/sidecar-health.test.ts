// A process of its own: it mostly waits.
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import * as dns from '../source/routes/dns/dns-server.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, startUsher } from '../support/usher.ts'

/** Two hosts of this one; their Patroni answers at the same port. */
const hosts = ['127.102.3.1', '127.102.3.2']

/** What Patroni's REST API says: 200 at the primary, 503 at the others. */
const fakePatroni = async (
  t: Test,
  host: string,
  port: number,
  isPrimary: () => boolean,
): Promise<void> => {
  const server = createServer(({ url }, response) => {
    response.writeHead(url === '/primary' && isPrimary() ? 200 : 503).end()
  })
  server.listen(port, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
}

t.test('when the primary moves its sessions end, and no new one fails', async t => {
  const api = await freeTcpPort()
  let primary = 'a'
  const members = await Promise.all(
    ['a', 'b'].map(async (name, i) => {
      const host = hosts[i] ?? ''
      await fakePatroni(t, host, api, () => primary === name)
      return namedEcho(t, name, host)
    }),
  )
  const port = await freeTcpPort()
  const config = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const endpoints = members.map(({ endpoint }) => JSON.stringify(endpoint.key)).join(', ')
  await writeFile(
    config,
    `routes:
  - name: db
    listen: tcp://${testHost}:${port}
    endpoints: [${endpoints}]
    check: { type: http, port: ${api}, path: /primary, interval: 200ms, timeout: 1s }
    onDown: reset
    hold: 20s
`,
  )
  const usher = await startUsher(t, 'sidecar', '--config', config)
  t.equal(await firstWord(port), 'a', 'the first client waits for the first check')
  const session = dial(t, port)
  let sessionEnded = ''
  session.on('error', (error: NodeJS.ErrnoException) => (sessionEnded = error.code ?? ''))
  await once(session, 'data')

  primary = 'nobody'
  const movedAt = performance.now()
  await until('the session ends', () => sessionEnded === 'ECONNRESET')
  t.ok(performance.now() - movedAt < 3000, 'in time')
  const [first, second] = members.map(({ endpoint }) => endpoint.key)
  for (const endpoint of [second, first])
    t.match(await usher.logged('an endpoint is down', { endpoint }), {
      route: 'db',
      why: /503/,
    })
  t.match((await usher.status()).servicePorts[0]?.endpoints, [
    { check: { up: false, since: /^20/, why: 'HTTP status 503, expected 200' } },
    { check: { up: false, since: /^20/ } },
  ])
  const { body: metrics } = await get(usher.metrics, '/metrics')
  const labels = `service_port="route/db",protocol="TCP",endpoint="${first}"`
  t.match(metrics, `usher_endpoint_up{${labels}} 0\n`)
  const held = Array.from({ length: 10 }, () => firstWord(port))
  await new Promise(resolve => setTimeout(resolve, 500))
  primary = 'b'
  t.strictSame([...new Set(await Promise.all(held))], ['b'], 'all waited for the new one')
  t.match((await get(usher.metrics, '/metrics')).body, `endpoint="${second}"} 1\n`)
})

/** Connects again and again, as clients do; what each got. */
const comers = (t: Test, port: number) => {
  const got = new Map<string, number>()
  const ended = new AbortController()
  const run = (async () => {
    while (!ended.signal.aborted) {
      const word = await firstWord(port)
      got.set(word, (got.get(word) ?? 0) + 1)
      await sleep(5)
    }
  })()
  const end = async () => {
    ended.abort()
    await run
    return got
  }
  t.teardown(end)
  return { got, end }
}

/** A session that stays. */
const sessionAt = async (t: Test, port: number) => {
  const socket = dial(t, port)
  const state = { name: '', ended: '' }
  socket.on('error', (error: NodeJS.ErrnoException) => (state.ended = error.code ?? ''))
  socket.on('close', () => (state.ended ||= 'closed'))
  const [name] = (await once(socket, 'data')) as [Buffer]
  state.name = name.toString()
  return state
}

t.test(
  'answers that alternate and edits of the file reset nothing and leave no gap',
  async t => {
    const [api, port, db] = [
      await freeTcpPort(),
      await freeTcpPort(),
      await freeTcpPort(),
    ]
    for (const [i, host] of hosts.entries()) {
      await fakePatroni(t, host, api, () => true)
      await namedEcho(t, 'ab'[i] ?? '', host, db)
    }
    let asked = 0
    const server = await dns.dnsServer(t, question => {
      const address = hosts[(question.type === 1 ? asked++ : asked) % 2] ?? ''
      return dns.reply(
        question,
        question.type === 1 ? [dns.a(question.name, address, 1)] : [],
      )
    })
    const config = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
    const write = (more: string, endpoint = `db.example:${db}`) =>
      writeFile(
        config,
        `routes:
  - name: db
    listen: tcp://${testHost}:${port}
    endpoints: ['${endpoint}']
    onDown: reset
${more}`,
      )
    const check = (over: string) =>
      `    check: { type: http, port: ${api}, path: /primary${over} }\n`
    await write(check(''))
    const resolver = `--resolver=${server.address}:${server.port}`
    const usher = await startUsher(t, 'sidecar', '--config', config, resolver)
    await until('it serves', async () => /^[ab]$/.test(await firstWord(port)))
    const sessions = [await sessionAt(t, port)]
    const clients = comers(t, port)
    await until('both have come up in answers', () => clients.got.size === 2)
    sessions.push(await sessionAt(t, port))
    for (const [more, endpoint] of [
      [check(', interval: 3s')],
      [check(', interval: 3s, fall: 5')],
      [''],
      [check('')],
      [check(''), `${hosts[0]}:${db}`],
      [check(''), `${hosts[1]}:${db}`],
    ] as const) {
      await write(more, endpoint)
      usher.send('SIGHUP')
      await sleep(1200)
    }
    t.strictSame([...(await clients.end()).keys()].toSorted(), ['a', 'b'])
    t.strictSame(
      sessions.map(({ ended }) => ended),
      ['', ''],
    )
  },
)

t.test('the last endpoint is cut, and a backup when the primary is back', async t => {
  const port = await freeTcpPort()
  const [a = '', b = ''] = hosts
  const db = await freeTcpPort()
  const api = await freeTcpPort()
  const up = [true, true]
  await Promise.all(
    [a, b].map((host, i) => fakePatroni(t, host, api, () => up[i] === true)),
  )
  await Promise.all([a, b].map((host, i) => namedEcho(t, 'ab'[i] ?? '', host, db)))
  const config = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  await writeFile(
    config,
    `routes:
  - name: db
    listen: tcp://${testHost}:${port}
    tiers: [['${a}:${db}'], ['${b}:${db}']]
    check: { type: http, port: ${api}, path: /primary, interval: 200ms }
    onDown: reset
    onBack: reset
    whenAllDown: try
`,
  )
  await startUsher(t, 'sidecar', '--config', config)
  await until('it serves', async () => (await firstWord(port)) === 'a')
  const first = await sessionAt(t, port)
  up[0] = false
  await until('it is cut', () => first.ended === 'ECONNRESET')
  const second = await sessionAt(t, port)
  t.equal(second.name, 'b')
  up[0] = true
  await until('the backup is cut', () => second.ended === 'ECONNRESET')
  const third = await sessionAt(t, port)
  t.equal(third.name, 'a')
  up.fill(false)
  await until('the last ones are cut', () => third.ended === 'ECONNRESET')
  // One at the backup would be cut, too, until that is down as well: then the first is tried again.
  await until('all are tried', async () => (await firstWord(port)) === 'a')
  const fourth = await sessionAt(t, port)
  t.equal(fourth.name, 'a')
  await sleep(1500)
  t.equal(fourth.ended, '', 'who came since stays')
})
