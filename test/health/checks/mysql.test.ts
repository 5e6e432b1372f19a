import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { ask, untilAsked } from '../ask.ts'
import { noMariadb, startMariadb } from '../mariadb-server.ts'

const start = async (t: Test, ...more: readonly string[]) => {
  const port = await freeTcpPort('127.0.0.1')
  const mariadb = startMariadb(t, { port }, ...more)
  await untilAsked('mysql', port, /^up/)
  return { port, ...mariadb }
}

/** Connects from an address that MariaDB does not take for its own host. */
const fromElsewhere = async (t: Test, port: number): Promise<number> => {
  const server = createServer(client => {
    const to = connect({ port, host: '127.0.0.1', localAddress: testHost })
    for (const socket of [client, to]) socket.on('error', () => {})
    client.pipe(to).pipe(client)
    client.on('close', () => to.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

t.test('MariaDB', { skip: noMariadb }, async t => {
  const { port, server, root, counted } = await start(t, '--max-connect-errors=1')

  t.test('a check for which there is no account is told to make one', async t => {
    const [, , before] = await counted()
    t.match(
      await ask('mysql', port),
      /^up: each one counts as a failed login.*CREATE USER 'usher'@'%'$/,
    )
    const [, , after] = await counted()
    t.not(after, before)
  })

  t.test('checks are no aborted connections, and nothing is logged', async t => {
    await root("CREATE USER usher@'%'")
    t.equal(await ask('mysql', port), 'up')
    const [before, log] = [await counted(), server.log]
    for (let i = 0; i < 50; i += 1) t.equal(await ask('mysql', port), 'up')
    t.same(await counted(), before)
    t.equal(server.log, log)
  })

  t.test('checks block nobody, with an account or without', async t => {
    const elsewhere = await fromElsewhere(t, port)
    const first = await ask('mysql', elsewhere)
    if (first !== 'up') return t.comment(`no reverse lookup here: ${first}`)
    for (const check of ['mysql', 'mysql://nobody@'])
      for (let i = 0; i < 50; i += 1) t.match(await ask(check, elsewhere), /^up/)
    t.equal(await ask('mysql', elsewhere), 'up')
    // So would a bare connection, if the server remembers where it came from.
    for (let i = 0; i < 3; i += 1) await ask({ expect: '/./' }, elsewhere)
    const last = await ask('mysql', elsewhere)
    if (last === 'up') t.comment('bare connections block nobody here')
    else t.match(last, /^down: .*blocked.* \(1129\)$/)
    await root('FLUSH HOSTS')
  })

  t.test(
    'an account with a password or another plugin is refused to the end',
    async t => {
      await root("CREATE USER secret@'%' IDENTIFIED BY 'secret'")
      t.match(
        await ask('mysql://secret@', port),
        /^up: each one counts as a failed login: .* CREATE USER 'secret'@'%'$/,
      )
    },
  )

  t.test('one that takes no more connections is up', async t => {
    await root('SET GLOBAL max_connections = 10')
    const held = Array.from({ length: 12 }, () => connect(port, '127.0.0.1'))
    for (const socket of held) socket.on('error', () => {})
    await Promise.all(held.map(socket => once(socket, 'data')))
    t.equal(await ask('mysql', port), 'up')
    for (const socket of held) socket.destroy()
    await untilAsked('mysql', port, /^up$/)
  })

  t.test('one that hangs or is gone is down', async t => {
    server.pause()
    t.equal(await ask('mysql', port, '127.0.0.1', 300), 'down: no answer within 0.3 s')
    server.resume()
    t.equal(await ask('mysql', port), 'up')
    await server.kill()
    t.equal(await ask('mysql', port), 'down: connection refused')
  })
})
