// A process of its own: it mostly waits.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { socketPath } from '../support/control-socket.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { netnsProblem } from '../support/netns.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import {
  type LaunchedUsher,
  launchUsher,
  launchUsherBy,
  startUsher,
  type Usher,
} from '../support/usher.ts'

t.jobs = 4

const why = await netnsProblem()

/** A container of a pod is started once more in the pod's own directory. */
const makeNode = async (t: Test) => {
  const port = await freeTcpPort()
  const { endpoint } = await namedEcho(t, 'a')
  const made = service('web', testHost, [{ name: 'p', port }])
  const file = await manifestFile(t, made, ...slice('web', [endpoint]))
  const socket = await socketPath(t)
  const flags = (directory: string): string[] => [
    'run',
    `--manifests=${file.path}`,
    `--control-socket=${socket}`,
    `--pod-dir=${directory}`,
    '--drain-timeout=1s',
  ]
  return {
    port,
    makePod: async () => {
      const directory = await tempDirectory(t)
      return {
        start: (): Promise<Usher> => startUsher(t, ...flags(directory)),
        launch: (): LaunchedUsher => launchUsher(t, ...flags(directory)),
        /** As a container has it: it is process 1. */
        launchAlone: (): LaunchedUsher =>
          launchUsherBy(t, ownProcesses, ...flags(directory)),
        isServing: (): boolean => existsSync(join(directory, 'serving')),
      }
    },
  }
}

/** A connection that has an endpoint. */
const connected = async (t: Test, port: number) => {
  const client = dial(t, port)
  await once(client, 'data')
  // At the end of the test Usher is killed first.
  client.on('error', () => {})
  return client
}

const ownProcesses = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']

const waits = 'another Usher serves in place of this pod, which waits'
const rests = 'another pod serves in place of this one, which waits for its end'

t.test('one that was taken over from waits for its SIGTERM', async t => {
  const { makePod, port } = await makeNode(t)
  const [older, newer] = [await makePod(), await makePod()]
  const first = await older.start()
  t.ok(older.isServing())
  const client = await connected(t, port)
  const second = await newer.start()
  t.match((await second.status()).tookOver, { pid: first.pid, connections: 1 })
  t.ok(newer.isServing())
  await first.logged(rests)
  t.notOk(older.isServing(), 'a startup probe of the old pod would see that')
  first.send('SIGTERM')
  t.match(await first.exit, { code: 0 })
  client.write('b')
  t.match(await once(client, 'data'), [Buffer.from('b')], 'through the new one')
})

t.test('a container of the old pod that starts again takes nothing back', async t => {
  const { makePod } = await makeNode(t)
  const [older, newer] = [await makePod(), await makePod()]
  const first = await older.start()
  first.send('SIGKILL')
  await first.exit
  const second = await newer.start()
  const again = older.launch()
  await again.logged(waits)
  t.notOk(older.isServing())
  t.ok(newer.isServing())
  again.send('SIGTERM')
  t.match(await again.exit, { code: 0 })
  t.equal((await second.status()).draining, false)
})

t.test('where the new pod is gone the old one serves again', async t => {
  const { makePod, port } = await makeNode(t)
  const [older, newer] = [await makePod(), await makePod()]
  const first = await older.start()
  const second = await newer.start()
  await first.logged(rests)
  second.send('SIGKILL')
  t.match(await first.exit, { code: 75 }, 'the kubelet starts it again')
  await older.start()
  t.equal(await firstWord(port), 'a')
  const again = newer.launch()
  await again.logged(waits)
  t.notOk(newer.isServing(), 'what was left says nothing')
  const third = await (await makePod()).start()
  t.ok((await third.status()).tookOver, 'but a pod that has not served takes over')
})

t.test('in process namespaces of their own', { skip: why !== '' && why }, async t => {
  const { makePod, port } = await makeNode(t)
  const [older, newer] = [await makePod(), await makePod()]
  const first = older.launchAlone()
  await first.logged('serving')
  const client = await connected(t, port)
  const second = newer.launchAlone()
  const taken = await second.logged(/^took over 1 connection/)
  t.match(taken, { pid: 1, connections: 1, staying: [], lost: '' })
  await first.logged('handed over to another Usher', { pid: 1 })
  await first.logged(rests)
  await until('the new one serves', newer.isServing)
  t.equal(client.destroyed, false)
})
