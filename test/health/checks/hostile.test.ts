import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { ask } from '../ask.ts'

/** What servers do to whom they should answer. */
const misdeeds: Readonly<Record<string, (socket: Socket) => void>> = {
  'never answers': () => {},
  'closes at once': socket => socket.end(),
  'resets at once': socket => socket.resetAndDestroy(),
  'answers rubbish': socket => socket.end('\xff\0rubbish \x1b[31m\r\n\r\n'),
  'answers without end': socket => flood(socket, 'x'.repeat(16_384)),
  'answers lines without end': socket => flood(socket, 'line\r\n'.repeat(2000)),
  'answers zeros without end': socket => flood(socket, '\0'.repeat(16_384)),
  drips: socket => {
    const timer = setInterval(() => socket.write('0'), 20)
    socket.on('close', () => clearInterval(timer))
  },
  'does not read': socket => socket.pause(),
  'closes after a question': socket => socket.once('data', () => socket.end()),
  'resets after a question': socket =>
    socket.once('data', () => socket.resetAndDestroy()),
  'begins TLS and says nothing': socket => socket.once('data', () => socket.write('S')),
}

const flood = (socket: Socket, text: string): void => {
  const more = (): void => {
    while (!socket.destroyed && socket.write(text)) if (socket.writableEnded) return
  }
  socket.on('drain', more)
  more()
}

const checks = [
  'http://',
  'postgres',
  'redis',
  'redis:///primary',
  'mysql',
  { send: String.raw`HELLO\r\n`, expect: 'WELCOME' },
  { expect: '/^220 .*ready/' },
] as const

/** With the sockets that are open. */
const serverOf = async (t: Test, deed: (socket: Socket) => void) => {
  const open = new Set<Socket>()
  const server: Server = createServer(socket => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => {})
    deed(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, open }
}

const handles = (...kinds: readonly string[]): number =>
  process.getActiveResourcesInfo().filter(name => kinds.includes(name)).length

for (const [deed, act] of Object.entries(misdeeds))
  t.test(`a server that ${deed} is down soon, and nothing stays open`, async t => {
    const { port } = await serverOf(t, act)
    for (const check of checks) {
      const began = performance.now()
      const answer = await ask(check, port, '127.0.0.1', 150)
      const tookMs = performance.now() - began
      t.match(answer, /^down: [\x20-\x7e]+$/, JSON.stringify(check))
      t.ok(tookMs < 1500, `${Math.round(tookMs)} ms`)
    }
    // A reset may be there before the connection is looked at.
    t.match(await ask('tcp', port), deed.startsWith('resets at') ? /^up$|reset$/ : /^up$/)
  })

t.test('nothing is left of many checks', async t => {
  const { port, open } = await serverOf(t, socket => socket.pause())
  const before = handles('Timeout')
  await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      ask(checks[i % checks.length] ?? 'tcp', port, '127.0.0.1', 100),
    ),
  )
  t.equal(handles('TCPSocketWrap'), open.size, 'the sockets are the server’s')
  t.equal(handles('Timeout'), before)
})
