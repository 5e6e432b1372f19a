import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { receiveNotices, noticesProblem } from '../support/notices.ts'
import { service } from '../support/manifests.ts'
import { startUsherBy } from '../support/usher.ts'

const folder = async (t: Test): Promise<string> => {
  const made = await mkdtemp(join(tmpdir(), 'usher-notify-'))
  t.teardown(() => rm(made, { recursive: true }))
  return made
}

const microseconds = (message: readonly string[] | undefined, name: string): number =>
  Number(message?.find(line => line.startsWith(name))?.slice(name.length + 1))

t.test('systemd is told by a sidecar', { skip: noticesProblem }, async t => {
  const file = join(await folder(t), 'routes.yaml')
  const listen = `${testHost}:${await freeTcpPort()}`
  const routes = (port: number) =>
    writeFile(
      file,
      `routes: [{ name: db, listen: 'tcp://${listen}', endpoints: ['127.0.0.1:${port}'] }]`,
    )
  await routes(1)
  const socket = `@usher-notify-${process.pid}`
  const { messages, heard } = await receiveNotices(t, socket)
  const usher = await startUsherBy(
    t,
    ['env', `NOTIFY_SOCKET=${socket}`, 'WATCHDOG_USEC=300000'],
    'sidecar',
    `--config=${file}`,
    '--drain-timeout=3s',
  )
  const ready = await heard(/^READY=1$/)
  t.strictSame(messages[0], ['WATCHDOG=1', 'STATUS=Starting'])
  t.strictSame(messages[ready], ['READY=1', 'STATUS=Healthy: 1 port served, 0 problems'])
  t.equal(messages.flat().filter(line => line === 'READY=1').length, 1)

  const alive = await heard(/^WATCHDOG=1$/, ready)
  await heard(/^WATCHDOG=1$/, alive + 1)

  await routes(2)
  const from = messages.length
  const before = Number(process.hrtime.bigint() / 1000n)
  usher.send('SIGHUP')
  const reloading = await heard(/^RELOADING=1$/, from)
  const at = microseconds(messages[reloading], 'MONOTONIC_USEC')
  const now = Number(process.hrtime.bigint() / 1000n)
  t.ok(before <= at && at <= now, 'the time is of the clock that systemd has')
  await heard(/^READY=1$/, reloading)
  const { servicePorts } = await usher.status()
  t.match(JSON.stringify(servicePorts), '127.0.0.1:2', 'what was read is in effect')

  usher.send('SIGTERM')
  t.strictSame(await usher.exit, { code: 0, signal: null })
  const stopping = await heard(/^STOPPING=1$/)
  t.strictSame(messages[stopping], [
    'STOPPING=1',
    'EXTEND_TIMEOUT_USEC=13000000',
    'STATUS=Stopping: draining for up to 3 s',
  ])
  t.equal(await heard(/^STATUS=Stopped$/), messages.length - 1, 'the last word')
})

t.test(
  'systemd is told by a node proxy, at a path',
  { skip: noticesProblem },
  async t => {
    const made = await folder(t)
    const file = join(made, 'services.yaml')
    await writeFile(
      file,
      JSON.stringify(service('web', '127.96.7.1', [{ name: 'p', port: 8080 }])),
    )
    const socket = join(made, 'notify')
    const { messages, heard } = await receiveNotices(t, socket)
    const usher = await startUsherBy(
      t,
      ['env', `NOTIFY_SOCKET=${socket}`, 'WATCHDOG_USEC=300000', 'WATCHDOG_PID=1'],
      'run',
      `--manifests=${file}`,
    )
    const ready = await heard(/^READY=1$/)
    t.strictSame(messages[ready]?.[1], 'STATUS=Healthy: 1 port served, 0 problems')
    usher.send('SIGHUP')
    const reloading = await heard(/^RELOADING=1$/, ready)
    await heard(/^READY=1$/, reloading)
    usher.send('SIGTERM')
    await usher.exit
    await heard(/^STOPPING=1$/, reloading)
    t.notOk(
      messages.flat().includes('WATCHDOG=1'),
      'it is another process that is watched',
    )
  },
)
