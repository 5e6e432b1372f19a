// A process of its own: long, and it mostly waits.
import { mkdirSync, rmdirSync } from 'node:fs'
import t from 'tap'
import type { Usher } from '../support/usher.ts'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import { said } from './connect-time/programs.ts'
import {
  makeStage,
  nodeAddress,
  skip,
  sliceAt,
  whoAnswers,
} from './connect-time/stage.ts'

const vip = '10.96.0.1'

t.test('whom --connect-time does not lead', { skip }, async t => {
  const stage = await makeStage(t)
  const { client, manifests, group } = stage
  const port = await client.serve(nodeAddress)
  const plain = '127.0.0.11'
  const plainPort = await client.serve(plain)
  const thief = { metadata: { name: 'thief' } }
  const ports = [{ name: 'p', port }]
  const web = service('web', '10.96.0.3', [{ name: 'p', port: 80 }])
  const checked = { 'usher-proxy.io/check': 'tcp' }
  await manifests.write(
    { ...web, metadata: { name: 'web', annotations: checked } },
    sliceAt('web', [nodeAddress], port),
    service('plain', vip, [{ name: 'p', port: 80 }]),
    sliceAt('plain', [plain], plainPort),
    { ...service('thief', '10.96.0.2', ports, { externalIPs: [nodeAddress] }), ...thief },
  )
  const flags = ['--connect-time-exempt=inner*,/missing'] as const
  /** By Usher's own check, which dials the endpoint. */
  const wentDown = ({ records }: Usher): boolean =>
    records.some(({ msg }) => /is down/.test(msg))
  const first = await stage.lead(t, ...flags)

  const second = await stage.start(t, ...flags)
  await second.logged(/^another Usher steers connections/)

  await t.test('groups that are exempt, also when they come later', async t => {
    const inner = `${group.path}/inner-7`
    mkdirSync(inner)
    t.teardown(() => rmdirSync(inner))
    const into = ['sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', inner]
    const script = `require('net').connect(80, '${vip}')
      .on('connect', function () { console.log('led'); this.destroy() })
      .on('error', error => console.log(error.code))`
    const dials = () => said(stage, ...into, process.execPath, '-e', script)
    await until('they are left', async () => (await dials()) === 'ENETUNREACH')
    t.equal(await whoAnswers(client, vip), plain, 'others are led')
    const { problems } = await stage.status(first)
    t.match(
      problems.filter(({ field }) => field === '--connect-time-exempt'),
      [{ message: new RegExp(`^there is no cgroup /missing in ${group.path}`) }],
    )
  })

  await t.test('Usher itself, whatever a Service claims', async t => {
    const { error } = await client.tcp(nodeAddress, port)
    t.equal(error, 'ECONNREFUSED', 'others are led to nobody')
    // Checks come every 2 s, after a refusal every 0.2 s; those of before took 4 s.
    t.equal(wentDown(first), false)
    t.equal(wentDown(second), false, 'nor one that waits')
    second.send('SIGTERM')
    await second.exit
  })

  await t.test('Usher after a crash, by programs that lead on', async t => {
    first.send('SIGKILL')
    await first.exit
    t.equal(await whoAnswers(client, vip), plain, 'they lead on')
    const next = await stage.start(t, ...flags)
    await next.logged(/^connect-time steering is on/)
    t.equal(wentDown(next), false)
  })
})
