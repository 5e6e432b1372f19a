import { chmodSync, chownSync, copyFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { connect } from 'node:net'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { freeTcpPort } from '../../support/ports.ts'
import { ask, untilAsked } from '../ask.ts'
import { postgresProblem } from '../../../bench/sidecar/postgres-program.ts'
import { type Cluster, makeCluster, startPostgres } from '../postgres-server.ts'

const certs = fileURLToPath(new URL('../../support/api-server/certs/', import.meta.url))

/** For TLS; the key has to be the server's own. */
const copyCertificate = (data: string): void => {
  for (const name of ['server.crt', 'server.key']) {
    copyFileSync(`${certs}${name}`, `${data}/${name}`)
    chmodSync(`${data}/${name}`, 0o600)
    if (process.getuid?.() === 0) chownSync(`${data}/${name}`, 65_534, 65_534)
  }
}

const start = async (
  t: Test,
  cluster: Cluster,
  access: string,
  ...settings: readonly string[]
) => {
  const port = await freeTcpPort('127.0.0.1')
  const server = startPostgres(t, cluster, { port, access }, ...settings)
  return { port, server }
}

/** What it logs once it is ready: checks should add nothing. */
const complaints = (log: string): readonly string[] =>
  log
    .slice(log.indexOf('ready to accept'))
    .split('\n')
    .filter(line => /FATAL|ERROR|WARNING|LOG/.test(line) && !/checkpoint/.test(line))

const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 100))

t.test('PostgreSQL', { skip: postgresProblem() }, async t => {
  const cluster = makeCluster(t)
  const ways = [
    ['with a password', 'host all all all scram-sha-256', []],
    ['with an old password', 'host all all all md5', []],
    ['without one', 'host all all all trust', []],
    ['only over TLS', 'hostssl all all all scram-sha-256', ['ssl=on']],
    ['only without TLS', 'hostnossl all all all trust', []],
  ] as const
  copyCertificate(cluster.data)

  for (const [how, access, settings] of ways)
    t.test(`that is entered ${how} is up, and logs nothing of it`, async t => {
      const { port, server } = await start(t, cluster, access, ...settings)
      await untilAsked('postgres', port, /^up$/)
      await settle()
      const before = complaints(server.log)
      for (let i = 0; i < 10; i += 1) t.equal(await ask('postgres', port), 'up')
      await settle()
      t.same(complaints(server.log), before)
      await server.kill('SIGINT')
    })

  t.test('that refuses the check is up, and what to mend is told', async t => {
    const { port, server } = await start(t, cluster, 'host app app all scram-sha-256')
    await untilAsked(
      'postgres',
      port,
      /^up: each one is refused, and logged: "no pg_hba.conf entry/,
    )
    t.equal(await ask('postgres://app@/app', port), 'up')
    await server.kill('SIGINT')
  })

  t.test('that hangs, shuts down or is gone is down', async t => {
    const { port, server } = await start(t, cluster, 'host all all all trust')
    await untilAsked('postgres', port, /^up$/)
    server.pause()
    t.equal(await ask('postgres', port, '127.0.0.1', 300), 'down: no answer within 0.3 s')
    server.resume()
    t.equal(await ask('postgres', port), 'up')
    const client = connect(port, '127.0.0.1')
    client.write('\0\0\0\x17\0\x03\0\0user\0postgres\0\0')
    await once(client, 'data')
    server.terminate()
    await untilAsked(
      'postgres',
      port,
      /^down: "the database system is shutting down" \(57P03\)$/,
    )
    client.destroy()
    await untilAsked('postgres', port, /^down: connection refused$/)
  })

  t.test('that recovers, and serves nobody yet, is down', async t => {
    writeFileSync(`${cluster.data}/standby.signal`, '')
    const none = ['hot_standby=off', 'restore_command=/bin/false']
    const { port, server } = await start(t, cluster, 'host all all all trust', ...none)
    await untilAsked('postgres', port, /^down: "the database system is .* \(57P03\)$/)
    await server.kill('SIGINT')
  })
})
