// A process of its own: it starts many, and waits.
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commandOf, dataPlanes } from '../support/data-plane.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, echoBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher, type Usher } from '../support/usher.ts'

t.jobs = 2

/** Usher with a Service and a state directory, and a client that has had an echo. */
const setUp = async (t: Test, orphanTimeout: string) => {
  const { endpoint } = await echoBackend(t)
  const port = await freeTcpPort()
  const file = await manifestFile(
    t,
    service('web', testHost, [{ name: 'p', port }]),
    ...slice('web', [endpoint]),
  )
  const directory = join(await tempDirectory(t), 'state')
  const start = (): Promise<Usher> =>
    startUsher(
      t,
      'run',
      '--manifests',
      file.path,
      `--state-dir=${directory}`,
      '--relay=linux',
      `--orphan-timeout=${orphanTimeout}`,
    )
  const usher = await start()
  const client = dial(t, port)
  let heard = ''
  client.on('data', (data: Buffer) => (heard += data.toString()))
  const says = async (word: string): Promise<void> => {
    const before = heard
    client.write(word)
    await until('it has an echo', () => heard === before + word || client.destroyed)
    if (client.destroyed) throw new Error('it was cut')
  }
  await says('a')
  const [plane = 0] = dataPlanes(usher.pid)
  // One that is left behind is no test's.
  t.teardown(() => {
    if (isThere(plane)) process.kill(plane, 'SIGKILL')
  })
  return { usher, start, client, says, port, plane }
}

/** Its output may be open yet: its data plane has that, too. */
const hasEnded = ({ pid }: Usher): Promise<void> =>
  until('it has ended', () => commandOf(pid).length <= 1)

const isThere = (pid: number): boolean =>
  commandOf(pid).some(arg => arg.endsWith('/data-plane.js'))

t.test('a control plane that crashes', { skip: linuxRelaySkip() }, async t => {
  t.test('is followed by one that has its connections', async t => {
    const { usher, start, client, says, port, plane } = await setUp(t, '30s')
    usher.send('SIGKILL')
    await hasEnded(usher)
    await says('it serves on, ')
    const newcomer = dial(t, port)
    newcomer.write('new')
    await once(newcomer, 'data')
    const next = await start()
    const { tookOver } = await next.status()
    t.match(tookOver, { pid: plane, connections: 2, staying: [], lost: '' })
    await until('the one that was left behind has ended', () => !isThere(plane))
    await says('and the next one, too')
    const [web] = (await next.status()).servicePorts
    t.match(web, { active: 2, accepted: 2 })
    // Killed it would leave its own behind.
    client.destroy()
    newcomer.destroy()
    next.send('SIGTERM')
    await next.exit
  })

  t.test('leaves a data plane that waits for so long, and no longer', async t => {
    const { usher, says, client, plane } = await setUp(t, '2s')
    usher.send('SIGKILL')
    await hasEnded(usher)
    await says('it serves on')
    const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException]
    t.equal(error.code, 'ECONNRESET', 'an end that is none would look whole')
    await until('it has ended', () => !isThere(plane))
  })

  t.test('leaves none with --orphan-timeout=0', async t => {
    const { usher, client, plane } = await setUp(t, '0')
    const ended = once(client, 'error')
    usher.send('SIGKILL')
    await ended
    await until('it has ended', () => !isThere(plane))
  })

  t.test('and one that is ended at once leaves none', async t => {
    const { usher, client, plane } = await setUp(t, '30s')
    const ended = once(client, 'error')
    usher.send('SIGTERM')
    await usher.logged('stopping: draining')
    usher.send('SIGTERM')
    await ended
    await until('it has ended', () => !isThere(plane))
  })
})
