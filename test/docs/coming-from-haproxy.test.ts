// A process of its own: it mostly waits.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { noRedis, startRedis } from '../health/redis-server.ts'
import { serverDirectory } from '../health/server-process.ts'
import { readRoutes } from '../../src/source/routes/read-routes.ts'
import * as dns from '../source/routes/dns/dns-server.ts'
import { helloFor } from '../support/client-hello.ts'
import { noHaproxy } from '../support/peers/haproxy.ts'
import { until } from '../support/until.ts'
import { runUsher } from '../support/usher.ts'
import {
  allUp,
  checked,
  named,
  type Session,
  session,
  settled,
  skipPairs as skip,
  spread,
  wordOf,
} from './haproxy-clients.ts'
import { defaults, pairs, placePair } from './haproxy-pair.ts'
import type { Address } from './placed-example.ts'

// What deploy/from-haproxy says is the same does the same: HAProxy and Usher side by side before the
// same servers. Here: which server a client gets.
t.jobs = 6

const run = promisify(execFile)

t.test('there are fourteen, and Usher takes each', async t => {
  t.equal(pairs.length, 14)
  for (const { name, routes } of pairs) {
    const read = await readRoutes(routes)
    t.strictSame(read.faults, [], name)
    t.equal(read.routes.length, 1, name)
  }
})

t.test('HAProxy takes each', { skip: noHaproxy }, async t => {
  const directory = serverDirectory(t)
  const list = join(directory, 'blocked.txt')
  writeFileSync(list, '192.0.2.0/24\n')
  for (const { name, haproxy } of pairs) {
    const path = join(directory, 'haproxy.cfg')
    writeFileSync(path, defaults + haproxy.replace('/etc/proxy/blocked.txt', list))
    const { stdout, stderr } = await run('haproxy', ['-c', '-f', path])
    t.match(stdout + stderr, /Configuration file is valid/, name)
    t.notMatch(stdout + stderr, /WARNING/, name)
  }
})

t.test('PostgreSQL with Patroni', { skip }, async t => {
  const { at, start } = await placePair(t, 'patroni')
  const servers = ['10.0.0.5:5432', '10.0.0.6:5432'].map(at) as [Address, Address]
  let primary = 0
  for (const [i, server] of servers.entries()) {
    await named(t, `pg${i}`, server)
    await checked(t, { ...server, port: at(':8008').port }, () => primary === i)
  }
  const { both } = await start()
  const writers = await Promise.all(
    both.map(async to => {
      await settled(t, to, 'pg0')
      const writer = session(t, to)
      t.equal(await writer.word, 'pg0', to.name)
      return writer
    }),
  )
  primary = 1
  for (const [i, to] of both.entries()) {
    await until(`${to.name}: the session ends`, () => writers[i]?.ended() === true)
    await settled(t, to, 'pg1')
  }
})

t.test('Read replicas', { skip }, async t => {
  const { at, start } = await placePair(t, 'read-replicas')
  for (const [name, address] of [
    ['big', '10.0.0.5:5432'],
    ['small', '10.0.0.6:5432'],
  ] as const) {
    const server = at(address)
    await named(t, name, server)
    await checked(t, { ...server, port: at(':8008').port }, () => true)
  }
  const { both, usher } = await start()
  await allUp(usher.process)
  for (const to of both)
    t.strictSame((await spread(t, to, 8)).count, { big: 6, small: 2 }, to.name)
})

t.test('Redis with a replica', { skip: skip || noRedis }, async t => {
  const { at, start } = await placePair(t, 'redis')
  const [first, second] = ['10.0.0.5:6379', '10.0.0.6:6379'].map(at) as [Address, Address]
  startRedis(t, first)
  startRedis(t, second, '--replicaof', `${first.host} ${first.port}`)
  const { both } = await start()
  const who = 'CONFIG GET bind\r\n'
  const writers = await Promise.all(
    both.map(async to => {
      await settled(t, to, first.host, who)
      const writer = session(t, to, { opening: who })
      t.match(await writer.word, first.host, to.name)
      return writer
    }),
  )
  const redis = ({ host, port }: Address, ...words: readonly string[]) =>
    run('redis-cli', ['-h', host, '-p', `${port}`, ...words])
  await redis(second, 'REPLICAOF', 'NO', 'ONE')
  await redis(first, 'REPLICAOF', second.host, `${second.port}`)
  for (const [i, to] of both.entries()) {
    await until(`${to.name}: the session ends`, () => writers[i]?.ended() === true)
    await settled(t, to, second.host, who)
  }
})

t.test('Galera with one writer', { skip }, async t => {
  const { at, start } = await placePair(t, 'galera')
  const places = ['10.0.0.5:3306', '10.0.0.6:3306', '10.0.0.7:3306'].map(at)
  const [, , last] = places
  const gone = new Set<Address>()
  const nodes = await Promise.all(
    places.map(async (place, i) => {
      await checked(t, { ...place, port: at(':9200').port }, () => !gone.has(place))
      return named(t, `galera${i}`, place)
    }),
  )
  const { both } = await start()
  const everyone = (server: string) => Promise.all(both.map(to => settled(t, to, server)))
  await everyone('galera0')
  const [first] = places
  if (first === undefined || last === undefined) throw new Error('no servers')
  gone.add(first)
  await nodes[0]?.close()
  await everyone('galera1')
  gone.delete(first)
  await named(t, 'galera0', first)
  await everyone('galera0')
  t.equal(nodes[2]?.accepted, 0, 'one at a time')
})

t.test('The same server for a client', { skip }, async t => {
  const { at, start } = await placePair(t, 'by-client')
  const places = ['10.0.0.5:11211', '10.0.0.6:11211', '10.0.0.7:11211'].map(at)
  const servers = await Promise.all(
    places.map((place, i) => named(t, `cache${i}`, place)),
  )
  const { both } = await start()
  const clients = Array.from({ length: 30 }, (_, i) => `127.6.0.${i + 1}`)
  const wordsOf = async (to: Address): Promise<string[]> => {
    const words: string[] = []
    for (const from of clients) words.push(await wordOf(t, to, { from }))
    return words
  }
  const before = await Promise.all(both.map(wordsOf))
  t.strictSame(await Promise.all(both.map(wordsOf)), before, 'each client its own')
  for (const words of before) t.ok(new Set(words).size > 1, `${new Set(words).size}`)
  await servers[0]?.close()
  for (const [i, to] of both.entries()) {
    const after = await wordsOf(to)
    t.notOk(after.includes('cache0') || after.includes(''), `${to.name}: all are served`)
    const moved = after.filter(
      (word, k) => word !== before[i]?.[k] && before[i]?.[k] !== 'cache0',
    )
    t.ok(moved.length <= 1, `${to.name}: the others stay, but ${moved.length}`)
  }
})

t.test('Servers by TLS name', { skip }, async t => {
  const { at, start } = await placePair(t, 'tls-names')
  await named(t, 'database', at('10.0.0.5:5432'))
  await named(t, 'application', at('10.0.0.6:443'))
  await named(t, 'other', at('10.0.0.7:443'))
  const { both } = await start()
  const asked = {
    'db.example': 'database',
    'a.apps.example': 'application',
    'apps.example': 'other',
    '': 'other',
  }
  for (const [name, server] of Object.entries(asked)) {
    const opening = await helloFor(t, name)
    for (const to of both)
      t.equal(await wordOf(t, to, { opening }), server, `${to.name}: "${name}"`)
  }
})

t.test('Servers by name', { skip }, async t => {
  const { at, start } = await placePair(t, 'dns')
  const { host, port } = at('127.0.0.11:53')
  const places = [5, 6, 7].map(last => ({
    host: `127.250.0.${last}`,
    port: at(':5432').port,
  }))
  for (const [i, place] of places.entries()) await named(t, `pg${i}`, place)
  let answer = places.slice(0, 2)
  const answers = (asked: dns.Asked): Buffer =>
    dns.reply(
      asked,
      asked.type === 1 && asked.name === 'db'
        ? answer.map(one => dns.a(asked.name, one.host, 1))
        : [],
    )
  await dns.dnsServer(t, answers, { address: host, port })
  const { both } = await start('', `--resolver=${host}:${port}`)
  for (const to of both)
    await until(`${to.name}: both`, async () => {
      const { count } = await spread(t, to, 4)
      return count['pg0'] === 2 && count['pg1'] === 2
    })
  answer = places.slice(2)
  for (const to of both) await settled(t, to, 'pg2')
})

/** What HAProxy answers at its runtime API. */
const command = async (path: string, line: string): Promise<string> => {
  const socket = connect(path)
  let text = ''
  socket.on('data', data => (text += data.toString()))
  socket.write(`${line}\n`)
  await once(socket, 'close')
  return text
}

t.test('At run time', { skip }, async t => {
  const { at, start } = await placePair(t, 'read-replicas')
  for (const [name, address] of [
    ['big', '10.0.0.5:5432'],
    ['small', '10.0.0.6:5432'],
  ] as const) {
    await named(t, name, at(address))
    await checked(t, { ...at(address), port: at(':8008').port }, () => true)
  }
  const directory = serverDirectory(t)
  const [theirs, ours] = [join(directory, 'haproxy'), join(directory, 'usher')]
  const { both, usher } = await start(
    `global\n  stats socket ${theirs} level admin\n`,
    `--control-socket=${ours}`,
  )
  await allUp(usher.process)
  const page = readFileSync(new URL('../../docs/sidecar.md', import.meta.url), 'utf8')
  const [, table = ''] = page.split('## At run time')
  const rows = [...table.matchAll(/^\| `([^`]+)` +\| `usher ([^`]+)` +\|$/gm)]
  t.equal(rows.length, 6)
  const big = at('10.0.0.5:5432')
  /** The row that begins so, done by both; what they said. */
  const inBoth = async (begin: string): Promise<readonly string[]> => {
    const [, line = '', words = ''] = rows.find(([, one]) => one?.startsWith(begin)) ?? []
    const placed = words.replace('10.0.0.5:5432', `${big.host}:${big.port}`).split(' ')
    const { code, out, err } = await runUsher(...placed, '--control-socket', ours)
    t.strictSame({ code, err }, { code: 0, err: '' }, words)
    return [await command(theirs, line), out]
  }
  await inBoth('set server replicas/big weight')
  const held: (readonly Session[])[] = []
  for (const to of both) {
    const { count, sessions, words } = await spread(t, to, 14)
    t.strictSame(count, { big: 12, small: 2 }, `${to.name}: weight`)
    held.push(sessions.filter((_, i) => words[i] === 'big'))
  }
  for (const said of await inBoth('show servers state')) t.match(said, big.host)
  for (const said of await inBoth('show sess')) t.match(said, 'replicas')
  await inBoth('set server replicas/big state drain')
  for (const to of both)
    t.strictSame((await spread(t, to, 4)).count, { small: 4 }, `${to.name}: drained`)
  await inBoth('set server replicas/big state ready')
  for (const to of both)
    await until(
      `${to.name}: it gets clients again`,
      async () => (await wordOf(t, to)) === 'big',
    )
  t.notOk(
    held.flat().some(({ ended }) => ended()),
    'sessions stay',
  )
  await inBoth('shutdown sessions')
  await until('all have ended', () => held.flat().every(({ ended }) => ended()))
})
