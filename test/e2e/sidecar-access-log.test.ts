import { execFile, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { ask, namedBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { get, startUsher } from '../support/usher.ts'

const contentOf = (path: string): Promise<string> =>
  readFile(path, 'utf8').catch(() => '')

const countOf = async (path: string): Promise<number> =>
  (await contentOf(path)).split('\n').length - 1

const route = async (t: Test, option: string) => {
  const port = await freeTcpPort()
  const { endpoint } = await namedBackend(t, 'hello')
  return { port, endpoint, flag: `tcp://${testHost}:${port}=${endpoint.key}?${option}` }
}

const inFile = (t: Test, relay: string, skip: string | false): void => {
  t.test(`${relay}: a file that is rotated, and stdout`, { skip }, async t => {
    const path = join(t.testdir(), 'db.log')
    const db = await route(t, `name=db&access-log=json&access-log-to=file:${path}`)
    const web = await route(t, 'name=web&access-log=json')
    const off = await route(t, 'name=off')
    const routes = [db, web, off].map(({ flag }) => `--route=${flag}`)
    const usher = await startUsher(t, 'sidecar', `--relay=${relay}`, ...routes)
    for (const { port } of [db, web, off]) t.equal((await ask(port)).text, 'hello')
    await until('it is in the file', async () => (await countOf(path)) === 1)
    t.match(JSON.parse(await contentOf(path)), {
      'usher.route': 'db',
      'usher.bytes_to_client': 5,
      'usher.cause': '--',
    })
    const printed = () => usher.records.filter(one => 'usher.route' in one)
    await until('the other is printed', () => printed().length === 1)
    t.match(printed(), [{ 'usher.route': 'web', 'event.name': 'usher.connection' }])
    await rename(path, `${path}.1`)
    usher.send('SIGHUP')
    await until('there is a new file', () => existsSync(path))
    await ask(db.port)
    await until('it is there', async () => (await countOf(path)) === 1)
    t.equal(await countOf(`${path}.1`), 1)
    const { body } = await get(usher.metrics, '/metrics')
    t.match(
      body,
      'usher_access_log_lines_total{service_port="route/db",protocol="TCP"} 2',
    )
    t.match(body, 'usher_access_log_dropped_total{service_port="route/db"} 0')
    t.notMatch(body, 'usher_access_log_lines_total{service_port="route/off"')
    // What waits at the end is written.
    await Promise.all(Array.from({ length: 50 }, () => ask(db.port)))
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    t.equal(await countOf(path), 51)
  })
}

inFile(t, 'linux', linuxRelaySkip())
inFile(t, 'portable', false)

t.test('a directory that is missing, and a file of routes that changes', async t => {
  const directory = join(t.testdir(), 'logs')
  const { port, endpoint } = await route(t, '')
  const config = join(t.testdir({ 'routes.json': '' }), 'routes.json')
  const write = (more: object) =>
    writeFile(
      config,
      JSON.stringify({
        routes: [
          {
            name: 'db',
            listen: `tcp://${testHost}:${port}`,
            endpoints: [endpoint.key],
            ...more,
          },
        ],
      }),
    )
  const to = `file:${directory}/db.log`
  await write({ accessLog: 'tcplog', accessLogTo: to })
  const usher = await startUsher(t, 'sidecar', `--config=${config}`)
  await usher.logged(/access log can't be written/, { to })
  t.equal((await ask(port)).text, 'hello', 'clients are served')
  const problems = async () => (await usher.status()).problems
  t.match(await problems(), [
    { object: 'access log', field: to, message: /^there is no directory .*; make it$/ },
  ])
  await write({ accessLog: 'tcplog' })
  usher.send('SIGHUP')
  await until('it is no problem any more', async () => (await problems()).length === 0)
  await until('what waited for the directory is lost', async () => {
    const { body } = await get(usher.metrics, '/metrics')
    return body.includes('usher_access_log_dropped_total{service_port="route/db"} 1')
  })
})

const run = promisify(execFile)

const halog = async (file: string, ...args: string[]): Promise<string> => {
  const { stdout } = await run('sh', ['-c', 'halog -q "$@" < "$0"', file, ...args])
  return stdout
}

const tcplogForm =
  /^\S+:\d+ \[\d\d\/[A-Z][a-z]{2}\/\d{4}:\d\d:\d\d:\d\d\.\d{3}\] \S+ [^/ ]+\/\S+ -?\d+\/-?\d+\/\d+ \d+ [-A-Za-z]{2} \d+\/\d+\/\d+\/\d+\/\+?\d+ \d+\/\d+$/

const noHalog =
  ['/usr/sbin', '/usr/bin', '/usr/local/sbin', '/usr/local/bin'].some(path =>
    existsSync(`${path}/halog`),
  ) && existsSync('/usr/sbin/haproxy')
    ? false
    : 'haproxy is not installed'

t.test('syslog, as HAProxy sends it and halog reads it', { skip: noHalog }, async t => {
  const heard: { usher: string[]; haproxy: string[] } = { usher: [], haproxy: [] }
  const server = async (to: string[]): Promise<number> => {
    const socket = createSocket('udp4', message => void to.push(message.toString()))
    socket.bind(0, testHost)
    await once(socket, 'listening')
    t.teardown(() => socket.close())
    return socket.address().port
  }
  const [own, theirs] = [await server(heard.usher), await server(heard.haproxy)]
  const to = `syslog:udp://${testHost}:${own}`
  const db = await route(t, `name=db&access-log=tcplog&access-log-to=${to}`)
  await startUsher(t, 'sidecar', `--route=${db.flag}`)
  const port = await freeTcpPort()
  const directory = t.testdir({
    'haproxy.cfg': `global
  log ${testHost}:${theirs} local0
defaults
  mode tcp
  log global
  option tcplog
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen db
  bind ${testHost}:${port}
  server ${db.endpoint.key.replace(':', '-')} ${db.endpoint.key}
`,
  })
  const haproxy = spawn('haproxy', ['-db', '-f', join(directory, 'haproxy.cfg')])
  t.teardown(() => void haproxy.kill('SIGKILL'))
  await until('HAProxy serves', async () => (await ask(port)).text === 'hello')
  await ask(db.port)
  const lines = (from: readonly string[]) =>
    from.filter(line => line.includes(' db db/')).map(line => line.trim())
  await until('both have told', () =>
    [heard.usher, heard.haproxy].every(from => lines(from).length > 0),
  )
  for (const [who, name] of [
    [lines(heard.usher)[0] ?? '', 'usher'],
    [lines(heard.haproxy)[0] ?? '', 'haproxy'],
  ] as const) {
    const [, header = '', line = ''] = /^(<134>.* \w+\[\d+\]: )(.*)$/.exec(who) ?? []
    t.match(
      header,
      new RegExp(String.raw`^<134>[A-Z][a-z]{2} [ \d]\d [\d:]{8} ${name}\[\d+\]: $`),
    )
    t.match(line, tcplogForm, who)
  }
  // As a server writes them, with its host's name.
  const file = join(directory, 'syslog')
  const written = lines(heard.usher).map(line =>
    line.replace(/^<134>(.{15}) /, '$1 host '),
  )
  await writeFile(file, written.map(line => `${line}\n`).join(''))
  t.equal(await halog(file, '-c'), '1\n')
  t.match(await halog(file, '-srv'), `\ndb/${db.endpoint.key} `)
  t.equal(await halog(file, '-E'), await contentOf(file), 'none of them is malformed')
  t.equal(await halog(file, '-H'), '', 'and none is of HTTP')
})
