import t, { type Test } from 'tap'
import { freeTcpPort } from '../../support/ports.ts'
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
    t.equal(await ask('redis:///replica', port), 'down: is primary, replica wanted')
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
    t.equal(await ask('redis:///primary', port), 'down: is replica, primary wanted')
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
