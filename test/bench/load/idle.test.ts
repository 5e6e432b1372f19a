import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { answerLoad } from '../../../bench/load/answer.ts'
import { freeDescriptors } from '../../../bench/load/load.ts'
import { ask, ok, serveHttp } from './servers.ts'

const path = '/64'
const isLinux = process.platform === 'linux'

t.test('idle connections are open at once, after as many others', async t => {
  let [open, most] = [0, 0]
  const seen = new Set<unknown>()
  const { to, asked } = await serveHttp(t, (_, socket) => {
    if (!seen.has(socket)) {
      open += 1
      most = Math.max(most, open)
      socket.once('close', () => (open -= 1))
    }
    seen.add(socket)
    return ok
  })
  const answer = await ask({ kind: 'idle', to, path, connections: 150 })
  t.match(answer, { done: 150, errors: {} })
  t.equal(answer.tried, undefined)
  t.equal(most, 150)
  t.ok(asked.connections >= 300)
  t.equal(open, 0)
})

/** A process that takes 60 MB when it is told to, and tells when it has. */
const growing = `
let kept
process.on('message', () => {
  kept = Buffer.alloc(60e6, 1)
  process.send(kept.length)
})
process.on('disconnect', () => process.exit())
process.send('started')
`

t.test('their memory is what the proxy has grown by', { skip: !isLinux }, async t => {
  const proxy = spawn(process.execPath, ['-e', growing], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  t.teardown(() => proxy.disconnect())
  // What it takes to start is not to be counted.
  await once(proxy, 'message')
  const { to } = await serveHttp(t, (nth, socket) => {
    // The first after the warm-up, which takes two requests each, waits for the growth.
    if (nth !== 121) return ok
    proxy.once('message', () => socket.write(ok)).send('grow')
    return undefined
  })
  const { memory } = await answerLoad({
    kind: 'idle',
    to,
    path,
    connections: 60,
    seconds: 1,
    pids: { backend: [], proxy: [proxy.pid ?? 0] },
  })
  t.ok(Math.abs((memory?.userBytes ?? 0) - 1e6) < 1e5, `${memory?.userBytes}`)
  t.ok(Number.isFinite(memory?.kernelBytes))
})

t.test('those that a server ends are not among them', async t => {
  const { to } = await serveHttp(t, (nth, socket) => {
    // Two of those that stay, after the warm-up: it takes 64 with two requests each.
    if (nth === 130 || nth === 140) setTimeout(() => socket.destroy(), 50)
    return ok
  })
  const answer = await ask({ kind: 'idle', to, path, connections: 64 })
  t.match(answer, { done: 62, tried: 64, errors: { 'closed early': 2 } })
})

t.test('there are no more of them than descriptors', async t => {
  const free = freeDescriptors()
  t.ok(free > 100)
  t.ok(Number.isFinite(free) || !isLinux)
})
