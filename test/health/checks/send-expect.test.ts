import { once } from 'node:events'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { ask } from '../ask.ts'

/** A server that says `greeting`, then `answer` to whatever it is told. */
const serve = async (t: Test, greeting: string, answer = ''): Promise<number> => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    if (greeting !== '') socket.write(greeting, 'latin1')
    socket.on('data', heard => {
      if (heard.toString('latin1') === 'PING\x01\r\n') socket.write(answer, 'latin1')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

const send = String.raw`PING\x01\r\n`

t.test('an answer is as expected or not', async t => {
  const smtp = await serve(t, '220 mail ready\r\n')
  const bytes = await serve(t, '', '\xff\x00PONG\n')
  const table = [
    [smtp, { expect: '220 ' }, 'up'],
    [smtp, { expect: '250 ' }, 'down: answered "220 mail ready", expected "250"'],
    [smtp, { expect: '/ready/' }, 'up'],
    [smtp, { expect: '/^2[0-9]0 .*ready\\r\\n$/' }, 'up'],
    [bytes, { send, expect: String.raw`\xff\0PONG` }, 'up'],
    [bytes, { send, expect: String.raw`/^\xff\x00PONG/` }, 'up'],
    [bytes, { send: 'PONG', expect: 'x' }, 'down: no answer within 0.3 s'],
    [smtp, { expect: '/^250 /' }, 'down: answered "220 mail ready", expected /^250 /'],
    [
      bytes,
      { send, expect: '/x$/' },
      String.raw`down: answered "\u00ff\u0000PONG", expected /x$/`,
    ],
    [
      smtp,
      { expect: '220 mail ready and more' },
      'down: answered "220 mail ready", expected "220 mail ready and more"',
    ],
  ] as const
  for (const [port, check, wanted] of table)
    t.equal(await ask(check, port, '127.0.0.1', 300), wanted, JSON.stringify(check))
})

t.test('an expression that goes astray is stopped', async t => {
  const port = await serve(t, 'a'.repeat(4000))
  const began = performance.now()
  t.match(
    await ask({ expect: '/^(a+)+$\\b!/' }, port),
    /^down: .* takes too long for "aaa/,
  )
  t.ok(performance.now() - began < 1000)
})
