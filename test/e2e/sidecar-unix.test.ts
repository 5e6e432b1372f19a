// A process of its own: it mostly waits.
import { execFile } from 'node:child_process'
import { chownSync, existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { postgresBin, postgresProblem } from '../../bench/sidecar/postgres-program.ts'
import { makeCluster, startPostgres } from '../health/postgres-server.ts'
import { noRedis, startRedis } from '../health/redis-server.ts'
import { serverDirectory } from '../health/server-process.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dialUnix, readToEnd, unixBackend } from '../support/unix-socket.ts'
import { until } from '../support/until.ts'
import { runUsher, startUsher } from '../support/usher.ts'

// Unix sockets with real servers and clients, from the command line to the log.
t.jobs = 3

const relays = linuxRelaySkip() === false ? ['linux', 'portable'] : ['portable']

const run = async (program: string, ...args: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)(program, args, { timeout: 30_000 })
  return stdout.trim()
}

const checkedUp = (t: Test, usher: Awaited<ReturnType<typeof startUsher>>) =>
  until('checks have found all up', async () => {
    const { servicePorts } = await usher.status()
    return servicePorts.every(({ endpoints }) => endpoints.every(one => one.check?.up))
  })

for (const relay of relays) {
  t.test(
    `${relay}: psql by a socket, to a server at another`,
    { skip: postgresProblem() },
    async t => {
      const [cluster, port] = [makeCluster(t), await freeTcpPort()]
      startPostgres(t, cluster, { host: testHost, port, access: 'local all all trust' })
      const own = serverDirectory(t)
      const [there, here] = [`${cluster.dir}/.s.PGSQL.${port}`, `${own}/.s.PGSQL.5432`]
      const log = `${own}/log`
      const usher = await startUsher(
        t,
        'sidecar',
        `--relay=${relay}`,
        `--route=unix:${here}=unix:${there}?check=postgres&socket-mode=666&access-log=json&access-log-to=file:${log}`,
      )
      await checkedUp(t, usher)
      const sql =
        'select sum(length(repeat(i::text, 1000))) from generate_series(1, 3000) i'
      const args = ['-h', own, '-U', 'postgres', '-Atc']
      t.equal(await run(`${postgresBin()}/psql`, ...args, sql), '10893000')
      const much = await run(
        `${postgresBin()}/psql`,
        ...args,
        "select repeat('x', 900000)",
      )
      t.equal(much, 'x'.repeat(900_000))
      await until('both are in the log', async () => {
        const text = await readFile(log, 'utf8').catch(() => '')
        return text.split('\n').length === 3
      })
      const [line = ''] = (await readFile(log, 'utf8')).split('\n')
      t.match(JSON.parse(line), {
        'network.transport': 'unix',
        'server.address': `unix:${here}`,
        'client.address': 'unix:',
        'network.peer.address': `unix:${there}`,
        'usher.cause': '--',
      })
      t.notOk(/server\.port|network\.type|client\.port|peer\.port/.test(line), line)
      usher.send('SIGTERM')
      await usher.exit
      t.notOk(existsSync(here), 'nothing is left of it')
    },
  )

  t.test(
    `${relay}: redis-cli by TCP, to a server without an address`,
    { skip: noRedis },
    async t => {
      const dir = serverDirectory(t)
      startRedis(t, { port: 0 }, '--unixsocket', `${dir}/redis.sock`)
      const port = await freeTcpPort()
      const usher = await startUsher(
        t,
        'sidecar',
        `--relay=${relay}`,
        `--route=tcp://${testHost}:${port}=unix:${dir}/redis.sock?check=redis`,
      )
      await checkedUp(t, usher)
      t.equal(await run('redis-cli', '-h', testHost, '-p', `${port}`, 'PING'), 'PONG')
    },
  )
}

t.test('control, status and wait call a socket by its path', async t => {
  const dir = serverDirectory(t)
  const at = (name: string): string => `unix:${dir}/${name}`
  for (const name of ['a', 'b'])
    await unixBackend(t, at(name), one => void one.write(name))
  const control = `${serverDirectory(t)}/s`
  // Of the user that it runs as, as the socket in there has to be.
  if (process.getuid?.() === 0) chownSync(control.slice(0, -2), 0, 0)
  const usher = await startUsher(
    t,
    'sidecar',
    `--control-socket=${control}`,
    `--route=${at('usher')}=${at('a')},${at('b')}?name=db`,
  )
  const word = (): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(`${dir}/usher`)
      socket.on('error', reject).on('data', data => {
        resolve(data.toString())
        socket.destroy()
      })
    })
  t.strictSame(new Set([await word(), await word()]), new Set(['a', 'b']))
  const command = (...args: string[]) => runUsher(...args, '--control-socket', control)
  t.match(await command('drain', at('a')), { code: 0 })
  t.strictSame([await word(), await word(), await word()], ['b', 'b', 'b'])
  t.match(await command('get', 'endpoints'), { out: at('a') })
  const waiting = dialUnix(t, at('usher'))
  waiting.on('error', () => {})
  await until('it is connected', async () => {
    const { out } = await command('get', 'connections', '-o', 'json')
    return out.includes(`"client": "unix:"`)
  })
  t.match(await runUsher('wait', at('usher'), `--address=${usher.metrics}`), { code: 0 })
  t.match(await runUsher('status', `--address=${usher.metrics}`), { out: at('usher') })
  t.match(await runUsher('wait', at('none'), '--timeout=300ms'), {
    code: 1,
    err: /no such socket/,
  })
})

t.test('one that is taken at the start is named', async t => {
  const dir = serverDirectory(t)
  const address = `unix:${dir}/usher`
  await unixBackend(t, address, one => void one.end('other'))
  const { code, err } = await runUsher('sidecar', `--route=${address}=unix:${dir}/db`)
  t.equal(code, 1)
  t.match(err, `cannot listen on ${address}: another process listens on it\n`)
  t.match(await readToEnd(dialUnix(t, address)), { bytes: Buffer.from('other') })
})
