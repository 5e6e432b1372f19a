// A process of its own: it mostly waits.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { postgresBin, postgresProblem } from '../../bench/sidecar/postgres-program.ts'
import { makeCluster, startPostgres } from '../health/postgres-server.ts'
import { runAsServer } from '../health/server-process.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort } from '../support/ports.ts'
import { ask, dial } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher } from '../support/usher.ts'

const skip = linuxRelaySkip() || postgresProblem()
const hosts = ['127.102.8.1', '127.102.8.2'] as const

interface Outcome {
  readonly text: string
  readonly errors: string
}

/** psql, and how it has ended; a signal is Ctrl-C of who sits before it. */
const psql = (conninfo: string, statement: string) => {
  const child: ChildProcess = spawn(
    `${postgresBin()}/psql`,
    ['-XAtwq', conninfo, '-c', statement],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const all = { text: '', errors: '' }
  child.stdout?.on('data', data => (all.text += String(data).trim()))
  child.stderr?.on('data', data => (all.errors += String(data).trim()))
  const ended = once(child, 'close').then((): Outcome => all)
  return { child, ended }
}

/** Both take TLS, and say by their settings which one they are. */
const startServers = async (t: Test, port: number): Promise<void> => {
  const first = makeCluster(t)
  const key = ['-nodes', '-keyout', `${first.data}/server.key`]
  const certificate = [
    '-out',
    `${first.data}/server.crt`,
    '-subj',
    '/CN=db',
    '-days',
    '9',
  ]
  runAsServer('openssl', ['req', '-x509', '-newkey', 'rsa:2048', ...key, ...certificate])
  const second = { dir: `${first.dir}/2`, data: `${first.dir}/2/data` }
  runAsServer('mkdir', [second.dir])
  runAsServer('cp', ['-a', first.data, second.data])
  for (const [i, cluster] of [first, second].entries()) {
    const host = hosts[i] ?? ''
    const place = { host, port, access: 'host all all all trust' }
    const settings = [`cluster_name=pg${i}`, 'ssl=on', 'authentication_timeout=1s']
    startPostgres(t, cluster, place, ...settings)
    const to = `host=${host} port=${port} user=postgres connect_timeout=5`
    await until('it has started', async () => {
      return (await psql(to, 'SELECT 1').ended).text === '1'
    })
  }
}

t.test('PostgreSQL, its clients and its cancel requests', { skip }, async t => {
  const [server, primary, names, api] = await Promise.all(
    [1, 2, 3, 4].map(() => freeTcpPort()),
  )
  if (server === undefined || api === undefined) throw new Error('no port')
  await startServers(t, server)
  for (const host of hosts) {
    const one = createServer((_, response) => response.writeHead(200).end('{}'))
    one.listen(api, host)
    await once(one, 'listening')
    t.teardown(() => {
      one.closeAllConnections()
      one.close()
    })
  }
  const [first, second] = hosts.map(host => `${host}:${server}`)
  const path = `${t.testdir({})}/routes.yaml`
  writeFileSync(
    path,
    `routes:
  - name: primary
    listen: tcp://127.0.0.1:${primary}
    tiers: [["${first}"], ["${second}"]]
    check: http://:${api}/primary
    onDown: reset
    hold: 30s
    replay: 1k
    answerWithin: 2s
  - name: names
    listen: tcp://127.0.0.1:${names}
    serverNames:
      - {names: [one.localhost], endpoints: ["${first}"]}
      - {names: [two.localhost], endpoints: ["${second}"]}
`,
  )
  await startUsher(t, 'sidecar', '--config', path)
  const which = "SELECT current_setting('cluster_name')"
  const to = (port = 0, more = '') =>
    `host=127.0.0.1 port=${port} user=postgres connect_timeout=9 ${more}`

  for (const mode of ['disable', 'require'])
    t.test(`Ctrl-C, sslmode=${mode}`, async t => {
      const plain = to(primary, `sslmode=${mode}`)
      const sleeping = psql(plain, 'SELECT pg_sleep(20)')
      const isAsleep =
        "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sl'"
      await until(
        'it sleeps',
        async () => (await psql(plain, isAsleep).ended).text === '1',
      )
      const began = performance.now()
      sleeping.child.kill('SIGINT')
      t.match(await sleeping.ended, { errors: /canceling statement due to user request/ })
      t.ok(performance.now() - began < 5000, 'the prompt is back')
    })

  t.test('none of the others is moved', async t => {
    const end = performance.now() + 5000
    const texts = new Set<string>()
    const good = [1, 2, 3].map(async () => {
      while (performance.now() < end) {
        const { text, errors } = await psql(to(primary, 'sslmode=disable'), which).ended
        texts.add(text + errors)
      }
    })
    const bad = [2, 3, 4, 5].map(async i => {
      while (performance.now() < end) {
        const from = `127.0.0.${i}`
        await ask(primary ?? 0, '127.0.0.1', from)
        const scanner = dial(t, primary ?? 0, '127.0.0.1', from).on('error', () => {})
        scanner.end('GET / HTTP/1.1\r\n\r\n')
        await once(scanner.resume(), 'close')
      }
    })
    await Promise.all([...good, ...bad])
    t.strictSame([...texts], ['pg0'])
  })

  t.test('by its server name a client gets its server, with TLS', async t => {
    for (const [name, answer] of [
      ['one', 'pg0'],
      ['two', 'pg1'],
    ] as const) {
      const conninfo = `host=${name}.localhost hostaddr=127.0.0.1 port=${names} user=postgres connect_timeout=9`
      const secure = `${which} || ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`
      t.match(await psql(`${conninfo} sslmode=require`, secure).ended, {
        text: `${answer}true`,
        errors: '',
      })
      const refused = await psql(`${conninfo} sslmode=disable`, which).ended
      t.match(refused, { text: '', errors: /connection to server/ })
    }
  })
})
