import type { Socket } from 'node:net'
import t from 'tap'
import type { Traffic } from '../../../bench/load/question.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { ask, askUnchecked, serve, serveHttp, timed } from './servers.ts'

const path = '/64'

const kinds = (to: Endpoint): readonly Traffic[] => [
  { kind: 'requests', generator: 'own', to, path, connections: 2 },
  { kind: 'connections', generator: 'own', to, path, parallel: 2 },
  { kind: 'paced-connections', to, path, perSecond: 40, timeoutMs: 500 },
  { kind: 'open-loop', to, path, connections: 2, perSecond: 100 },
  { kind: 'first-connections', to: [to], path },
  { kind: 'idle', to, path, connections: 10 },
]

const targets: Record<string, { error: string; onSocket: (socket: Socket) => void }> = {
  resets: {
    error: 'ECONNRESET',
    onSocket: socket => socket.once('data', () => socket.resetAndDestroy()),
  },
  'closes early': {
    error: 'closed early',
    onSocket: socket => {
      socket.once('data', () =>
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n'),
      )
    },
  },
  'is no HTTP server': {
    error: 'wrong response',
    onSocket: socket => {
      socket.once('data', () => socket.write('220 smtp ready\r\n'))
    },
  },
  'never answers': { error: 'timeout', onSocket: socket => socket.resume() },
}

for (const [name, { error, onSocket }] of Object.entries(targets))
  t.test(`a target that ${name} is told as an error`, async t => {
    const to = await serve(t, onSocket)
    // Side by side: silence takes each its seconds.
    for (const [traffic, [answer, ms]] of await together(kinds(to))) {
      t.equal(answer.done, 0, traffic.kind)
      const expected = traffic.kind === 'open-loop' && error === 'timeout'
      t.ok(answer.errors[expected ? 'no answer' : error], `${traffic.kind}: ${error}`)
      t.ok(ms < 8000, `${traffic.kind} took ${ms} ms`)
    }
  })

t.test(
  'a target that refuses is told as an error, and not asked without pause',
  async t => {
    const to = { address: testHost, port: await freeTcpPort() }
    for (const [traffic, [answer]] of await together(kinds(to))) {
      t.equal(answer.done, 0, traffic.kind)
      const refused = answer.errors['ECONNREFUSED'] ?? 0
      t.ok(refused > 0 && refused < 2000, `${traffic.kind}: ${refused}`)
    }
  },
)

t.test('a target that dies in the middle of a run is told as an error', async t => {
  const sockets = new Set<Socket>()
  let isDead = false
  const { to } = await serveHttp(t, (_, socket) => {
    sockets.add(socket)
    if (!isDead) return 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
    socket.resetAndDestroy()
    return undefined
  })
  setTimeout(() => {
    isDead = true
    for (const socket of sockets) socket.resetAndDestroy()
  }, 800)
  for (const [traffic, [answer]] of await together(kinds(to).slice(0, 4), 1)) {
    t.ok(answer.done > 0, traffic.kind)
    t.ok(answer.errors['ECONNRESET'], traffic.kind)
  }
})

/** What one leaves can't be told from what the others still use. */
const together = (all: readonly Traffic[], seconds = 0.4) =>
  Promise.all(
    all.map(
      async traffic => [traffic, await timed(askUnchecked(traffic, seconds))] as const,
    ),
  )

for (const kind of ['never answers', 'resets'])
  t.test(`nothing is left of a load on a target that ${kind}`, async t => {
    const to = await serve(t, targets[kind]?.onSocket ?? (() => undefined))
    for (const traffic of kinds(to).slice(0, 4)) await ask(traffic, 0.1)
    t.pass('ask() has looked')
  })
