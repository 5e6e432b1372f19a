import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { dataPlanes } from '../support/data-plane.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { testHost } from '../support/ports.ts'
import { ask, namedBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const skip = process.platform !== 'linux' && 'looks into /proc'

/** Listens on a port as soon as nobody else does. */
const take = async (t: Test, port: number): Promise<Server> => {
  for (let tries = 0; tries < 100_000; tries += 1) {
    const server = createServer(socket => socket.end('a stranger'))
    server.listen(port, testHost)
    const taken = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (taken) {
      t.teardown(() => server.close())
      return server
    }
    await turn()
  }
  throw new Error(`port ${port} was never free`)
}

const portOf = async (usher: Usher): Promise<number> => {
  const { vips } = await usher.servicePort('web:p')
  return Number(vips[0]?.listen.split(':')[1] ?? 0)
}

t.test('a proxy port that another program takes is given up', { skip }, async t => {
  const { endpoint } = await namedBackend(t, 'a')
  const file = await manifestFile(
    t,
    service('web', '10.0.0.1', [{ name: 'p', port: 80 }]),
    ...slice('web', [endpoint]),
  )
  const usher = await startUsher(
    t,
    'run',
    `--manifests=${file.path}`,
    '--proxy-mode=userspace',
    '--capture=none',
    `--bind-address=${testHost}`,
  )
  const port = await portOf(usher)
  t.equal((await ask(port)).text, 'a')
  const [pid = 0] = dataPlanes(usher.pid)
  process.kill(pid, 'SIGKILL')
  await take(t, port)
  await until('it has another', async () => {
    const other = await portOf(usher)
    return other !== port && (await ask(other)).text === 'a'
  })
  t.equal((await ask(port)).text, 'a stranger')
  const { unhealthy } = await usher.status()
  t.strictSame(unhealthy, [], 'and nothing is red any more')
})
