import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { freeTcpPort } from '../../support/ports.ts'
import { tcpBackend } from '../../support/tcp-backend.ts'
import { ask, untilAsked } from '../ask.ts'
import { noRedis, startRedis } from '../redis-server.ts'
import { talkTo } from '../talk-to.ts'

const redis = async (t: Test, ...options: readonly string[]) => {
  const port = await freeTcpPort('127.0.0.1')
  return { port, ...startRedis(t, { port }, ...options) }
}

t.test('Redis', { skip: noRedis }, async t => {
  t.test('that serves is up, one that hangs or is gone is down', async t => {
    const { port, server } = await redis(t)
    await untilAsked('redis', port, /^up$/)
    t.equal(await ask('redis:///primary', port), 'up')
    t.equal(await ask('redis:///replica', port), 'down: is primary, expected replica')
    server.pause()
    t.equal(await ask('redis', port, '127.0.0.1', 300), 'down: no answer within 0.3 s')
    server.resume()
    t.equal(await ask('redis', port), 'up')
    await server.kill()
    t.equal(await ask('redis', port), 'down: connection refused')
  })

  t.test('that wants a password is up; its role is not known', async t => {
    const { port } = await redis(t, '--requirepass', 'secret')
    await untilAsked('redis', port, /^up$/)
    t.match(await ask('redis:///primary', port), /^down: answered "-NOAUTH .* to ROLE$/)
  })

  t.test('that is full is there; its role is not known, and it is not down', async t => {
    const { port } = await redis(t, '--maxclients', '1')
    await untilAsked('redis', port, /^up$/)
    const client = connect(port, '127.0.0.1')
    t.teardown(() => client.destroy())
    await once(
      client.setNoDelay().on('connect', () => client.write('PING\r\n')),
      'data',
    )
    t.equal(await ask('redis', port), 'up')
    for (const more of [{}, { password: 'any' }])
      t.equal(
        await ask({ type: 'redis', role: 'primary', ...more }, port),
        'down: not checked: ERR max number of clients reached',
      )
  })

  t.test('by a password its role is known, and the password is not said', async t => {
    const acl = '--user checker on >s3cret resetchannels -@all +ping +role'.split(' ')
    const { port } = await redis(t, '--requirepass', 's3cret', ...acl)
    await untilAsked('redis', port, /^up$/)
    const file = `${t.testdir({ password: 's3cret\nmore' })}/password`
    process.env['USHER_TEST_PASSWORD'] = 's3cret'
    t.teardown(() => delete process.env['USHER_TEST_PASSWORD'])
    const as = (over: object) => ask({ type: 'redis', role: 'primary', ...over }, port)
    for (const password of ['s3cret', `file:${file}`, 'env:USHER_TEST_PASSWORD'])
      t.equal(await as({ password }), 'up')
    t.equal(await as({ user: 'checker', password: 's3cret' }), 'up')
    t.equal(
      await as({ password: 'wr0ng' }),
      'down: answered "-NOAUTH..." to ROLE; the login is refused: WRONGPASS',
    )
    t.equal(
      await ask({ type: 'redis', password: 'wr0ng' }, port),
      'up: the login is refused: WRONGPASS',
    )
    t.match(
      await as({ password: 'file:/nowhere' }),
      /^down: not checked: \/nowhere .*ENOENT/,
    )
    t.equal(
      await as({ password: 'env:NO_SUCH' }),
      'down: not checked: env:NO_SUCH is not set',
    )
    const open = await redis(t)
    await untilAsked(
      { type: 'redis', password: 's3cret' },
      open.port,
      /^up: .*refused: ERR$/,
    )
  })

  t.test(
    'a server that repeats what it hears does not get the password told',
    async t => {
      const { endpoint } = await tcpBackend(t, socket =>
        socket.on('data', data => {
          socket.write(data)
          socket.write('-s3cret')
          socket.end()
        }),
      )
      const check = { type: 'redis', password: 's3cret', role: 'primary' } as const
      t.notMatch(await ask(check, endpoint.port, endpoint.address), /s3cret/)
      const http = { type: 'http', headers: { A: 's3cret' } } as const
      t.notMatch(await ask(http, endpoint.port, endpoint.address), /s3cret/)
    },
  )

  t.test(
    'a replica that has lost its primary and serves no old data is down',
    async t => {
      const nobody = await freeTcpPort('127.0.0.1')
      const { port } = await redis(
        t,
        '--replicaof',
        `127.0.0.1 ${nobody}`,
        '--replica-serve-stale-data',
        'no',
      )
      await untilAsked('redis', port, /^down: answered "-MASTERDOWN /)
      t.match(await ask('redis:///replica', port), /^down: answered "-MASTERDOWN /)
    },
  )

  t.test('a replica is known as one', async t => {
    const primary = await redis(t)
    const { port } = await redis(t, '--replicaof', `127.0.0.1 ${primary.port}`)
    await untilAsked('redis:///replica', port, /^up$/)
    t.equal(await ask('redis:///primary', port), 'down: is replica, expected primary')
    t.equal(await ask('redis', port), 'up')
  })

  t.test('that loads its data is down', async t => {
    const { port, server, start } = await redis(t)
    await untilAsked('redis', port, /^up$/)
    const sets = Array.from(
      { length: 100 },
      (_, i) => `SET key-${i} ${'x'.repeat(100)}\r\n`,
    )
    await talkTo(port, `${sets.join('')}SAVE\r\nQUIT\r\n`)
    await server.kill()
    // 20 ms a key, and a look at its clients every ten or so.
    start('--key-load-delay', '20000', '--loading-process-events-interval-bytes', '1024')
    await untilAsked('redis', port, /^down: answered "-LOADING /)
    t.match(await ask('redis:///primary', port), /^down: answered "-LOADING /)
  })
})
