// A process of its own: it mostly waits.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, type Socket } from 'node:net'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { noMariadb, startMariadb } from '../health/mariadb-server.ts'
import { mysqlClient } from '../health/mysql-client.ts'
import { postgresBin, postgresProblem } from '../../bench/sidecar/postgres-program.ts'
import { makeCluster, makeStandby, startPostgres } from '../health/postgres-server.ts'
import { noRedis, startRedis } from '../health/redis-server.ts'
import { firstWord, tcpBackend } from '../support/tcp-backend.ts'
import { echoUdp } from '../support/udp-backend.ts'
import { udpClient } from '../support/udp-client.ts'
import { until } from '../support/until.ts'
import { startUsher, type Usher } from '../support/usher.ts'
import {
  type Address,
  exampleBelow,
  type PlacedExample,
  placeExample,
} from './placed-example.ts'

// What docs/sidecar.md and docs/routes.md promise of their examples, with real servers in place of
// their addresses.
t.jobs = 5
const onlyLinux = process.platform !== 'linux' && 'needs the whole of 127.0.0.0/8'

const run = async (program: string, ...args: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)(program, args, { timeout: 30_000 })
  return stdout.trim()
}

const serve = (t: Test, { text }: PlacedExample): Promise<Usher> => {
  const path = `${t.testdir({})}/routes.yaml`
  writeFileSync(path, text)
  return startUsher(t, 'sidecar', '--config', path)
}

/** A client that stays: what it has heard first, and how its connection ended. */
const session = async (t: Test, to: Address, opening: string) => {
  const socket: Socket = connect(to)
  const ended = { how: '' }
  t.teardown(() => socket.destroy())
  socket.on('error', ({ code = '' }: NodeJS.ErrnoException) => (ended.how = code))
  socket.write(opening)
  await once(socket, 'data')
  return ended
}

/** What Patroni's REST API says at a server that is `role` just now. */
const fakePatroni = async (t: Test, at: Address, role: () => string): Promise<void> => {
  const roles = new Map([
    ['/primary', 'primary'],
    ['/replica?lag=10MB', 'replica'],
  ])
  const server = createServer(({ url = '' }, response) => {
    response.writeHead(roles.get(url) === role() ? 200 : 503).end('{}')
  })
  server.listen(at.port, at.host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
}

t.test('PostgreSQL with Patroni', { skip: onlyLinux || postgresProblem() }, async t => {
  const example = await placeExample(exampleBelow('PostgreSQL with Patroni'))
  const [first, second] = [example.at('pg-0.db:5432'), example.at('pg-1.db:5432')]
  const { port: api } = example.at(':8008')
  const roles = { first: 'none', second: 'none' }
  await fakePatroni(t, { ...first, port: api }, () => roles.first)
  await fakePatroni(t, { ...second, port: api }, () => roles.second)
  const usher = await serve(t, example)
  const sql = ({ host, port }: Address, statement: string): Promise<string> =>
    run(
      `${postgresBin()}/psql`,
      '-XAtwqU',
      'postgres',
      '-h',
      host,
      '-p',
      `${port}`,
      '-c',
      statement,
    )
  const primary = example.at('127.0.0.1:5432')
  const replicas = example.at('127.0.0.1:5433')

  const cluster = makeCluster(t)
  const standby = makeStandby(
    t,
    cluster,
    `host=${first.host} port=${first.port} user=postgres`,
  )
  // Of pg-2 there is nothing: one of three is always being mended.
  const access = 'host all,replication all all trust'
  startPostgres(t, cluster, { ...first, access })
  startPostgres(t, standby, { ...second, access })

  const where = 'SELECT pg_is_in_recovery(), inet_server_addr()'
  const firstAnswer = sql(primary, where)
  // Patroni says that a server is in its role once that takes sessions.
  const serves = (server: Address) =>
    sql(server, 'SELECT 1').then(
      () => true,
      () => false,
    )
  await until('the primary has started', () => serves(first))
  roles.first = 'primary'
  t.equal(await firstAnswer, `f|${first.host}`, 'the first client waits')
  await until('the standby has started', () => serves(second))
  roles.second = 'replica'
  await sql(primary, 'CREATE TABLE t AS SELECT 7 AS n')
  await until('the standby has it', async () => {
    const found = await sql(
      replicas,
      "SELECT count(*) FROM pg_tables WHERE tablename = 't'",
    )
    return found === '1'
  })
  const asked = await Promise.all([1, 2, 3, 4].map(() => sql(replicas, where)))
  t.same([...new Set(asked)], [`t|${second.host}`], 'replicas only')

  const startup = '\0\0\0\x17\0\x03\0\0user\0postgres\0\0'
  const [writer, reader] = [
    await session(t, primary, startup),
    await session(t, replicas, startup),
  ]
  roles.first = 'none'
  await until('the session ends', () => writer.how === 'ECONNRESET')
  const endpoint = `${first.host}:${first.port}`
  const told = await usher.logged('an endpoint is down', { route: 'primary', endpoint })
  t.equal(told['why'], 'HTTP status 503, expected 200')
  const waiting = sql(primary, 'INSERT INTO t VALUES (8) RETURNING inet_server_addr()')
  await sql(second, 'SELECT pg_promote()')
  roles.second = 'primary'
  t.equal(await waiting, second.host, 'a new one waits for the new primary')
  t.equal(reader.how, '', 'sessions of replicas are kept')
})

t.test('Redis with a replica', { skip: onlyLinux || noRedis }, async t => {
  const example = await placeExample(exampleBelow('Redis with a replica'))
  const route = example.at('127.0.0.1:6379')
  const [first, second] = [
    example.at('redis-0.cache:6379'),
    example.at('redis-1.cache:6379'),
  ]
  const usual = ['--repl-diskless-sync-delay', '0']
  startRedis(t, first, ...usual)
  startRedis(t, second, ...usual, '--replicaof', `${first.host} ${first.port}`)
  await serve(t, example)
  const redis = (
    { host, port }: Address,
    ...command: readonly string[]
  ): Promise<string> => run('redis-cli', '-h', host, '-p', `${port}`, ...command)

  t.equal(await redis(route, 'SET', 'key', '1'), 'OK', 'writes go to the master')
  t.equal(await redis(route, 'CONFIG', 'GET', 'bind'), `bind\n${first.host}`)
  await until('it is replicated', async () => (await redis(second, 'GET', 'key')) === '1')
  const client = await session(t, route, 'PING\r\n')
  await redis(second, 'REPLICAOF', 'NO', 'ONE')
  await redis(first, 'REPLICAOF', second.host, `${second.port}`)
  await until('the connection ends', () => client.how === 'ECONNRESET')
  t.equal(await redis(route, 'SET', 'key', '2'), 'OK', 'it follows the new master')
  t.equal(await redis(second, 'GET', 'key'), '2')
})

t.test('MariaDB and Galera', { skip: onlyLinux || noMariadb }, async t => {
  const example = await placeExample(exampleBelow('MariaDB and Galera'))
  const statement = exampleBelow('MariaDB and Galera', ' *sql').trim().replace(';', '')
  const places = ['galera-0.db:3306', 'galera-1.db:3306'].map(example.at)
  // Of the third there is nothing.
  const nodes = places.map(place =>
    startMariadb(t, place, '--max-connect-errors=1', '--skip-name-resolve'),
  )
  for (const { root } of nodes)
    await until('it serves', () =>
      root(statement).then(
        () => true,
        () => false,
      ),
    )
  const usher = await serve(t, example)
  const client = mysqlClient(example.at('127.0.0.1:3306'), 'usher')
  const hostsOf = async (): Promise<readonly string[]> => {
    const found = new Set<string>()
    for (let i = 0; i < 6; i += 1) {
      const answer = await client('SELECT @@bind_address')
      for (const { host } of places) if (answer.includes(host)) found.add(host)
    }
    return [...found].toSorted()
  }
  t.same(await hostsOf(), places.map(({ host }) => host).toSorted(), 'all serve')

  const [first] = nodes
  const connections = async (): Promise<number> => {
    const answer = (await first?.root("SHOW GLOBAL STATUS LIKE 'Connections'")) ?? ''
    return Number(/Connections.(\d+)/s.exec(answer)?.[1])
  }
  const [counted, log, before] = [
    await first?.counted(),
    first?.server.log,
    await connections(),
  ]
  let own = 0
  await until(
    'it has been checked',
    async () => (await connections()) - before > (own += 1) + 1,
  )
  t.same(await first?.counted(), counted, 'no aborted connections')
  t.equal(first?.server.log, log, 'and nothing in its log')
  t.notMatch(JSON.stringify(await usher.status()), /CREATE USER/)

  await nodes[1]?.server.kill()
  t.same(await hostsOf(), [places[0]?.host], 'one that is gone is passed over at once')
})

const named = (t: Test, { host, port }: Address, name: string) =>
  tcpBackend(t, socket => void socket.write(name), host, port)

t.test('any TCP service', { skip: onlyLinux }, async t => {
  const example = await placeExample(exampleBelow('Any TCP service'))
  const { host, port } = example.at('127.0.0.1:9000')
  const words = async (): Promise<string> =>
    [...new Set([await firstWord(port, host), await firstWord(port, host)])]
      .toSorted()
      .join(' ')
  const places = ['10.0.0.5:9000', '10.0.0.6:9000', '10.1.0.5:9000'].map(example.at)
  const [a, b, c] = places as [Address, Address, Address]
  const first = await Promise.all([named(t, a, 'a'), named(t, b, 'b')])
  await named(t, c, 'second site')
  await serve(t, example)
  t.equal(await words(), 'a b', 'both of the first tier, in turn')
  await first[0].close()
  t.equal(await words(), 'b', 'the other one at once')
  await first[1].close()
  t.equal(await words(), 'second site', 'and then the second site')
  await named(t, b, 'b')
  await until('back to the first tier', async () => (await words()) === 'b')
})

t.test('the file and the flag of the reference', { skip: onlyLinux }, async t => {
  const file = await placeExample(exampleBelow('The file'))
  const [line = ''] = exampleBelow('A flag', 'sh').split('\n')
  const flag = await placeExample(/'(.*)'/.exec(line)?.[1] ?? '')
  for (const place of ['10.0.0.10:53', '[fd00::10]:53'].map(file.at))
    await echoUdp(t, place.host, place.port)
  for (const { at } of [file, flag]) {
    await named(t, at('10.0.0.6:5432'), 'first tier')
    await named(t, at('10.1.0.5:5432'), 'second tier')
  }
  const path = `${t.testdir({})}/routes.yaml`
  writeFileSync(path, file.text)
  await startUsher(t, 'sidecar', '--config', path, '--route', flag.text)
  for (const { at } of [file, flag]) {
    const { host, port } = at('127.0.0.1:15432')
    t.equal(await firstWord(port, host), 'first tier')
  }
  const { host, port } = file.at('127.0.0.1:15353')
  t.equal(await (await udpClient(t, port, host)).ask('name?'), 'name?')
})
