// A process of its own: long, and it mostly waits.
import { execFileSync } from 'node:child_process'
import { constants } from 'node:os'
import t from 'tap'
import * as tables from '../../src/kernel/connect-time/tables.ts'
import type { AnswerOf } from '../../src/observe/control-protocol.ts'
import { missingPrograms } from '../support/installed.ts'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import {
  makeStage,
  nodeAddress,
  skip,
  sliceAt,
  whoAnswers,
} from './connect-time/stage.ts'

const vip = '10.96.0.1'
const noBpftool = missingPrograms('bpftool') || false
const nodePort = 30080

t.test('Usher leads clients on the node, and says so', { skip }, async t => {
  const stage = await makeStage(t)
  const { client, manifests } = stage
  const port = await client.serve('127.0.0.11')
  await client.serve('127.0.0.12', port)
  const web = service('web', vip, [{ name: 'p', port: 80, nodePort }], {
    type: 'NodePort',
  })
  const none = service('none', '10.96.0.2', [{ name: 'p', port: 80 }])
  const write = (...addresses: string[]) =>
    manifests.write(web, none, sliceAt('web', addresses, port))
  await write('127.0.0.11')
  t.equal(await whoAnswers(client, vip), 'ENETUNREACH')
  const usher = await stage.lead(t)

  await t.test('by VIP and node port', async t => {
    t.same(await client.tcp(vip, 80), {
      said: '127.0.0.11 sees 127.0.0.1',
      peer: `${vip} 80`,
    })
    for (const address of [nodeAddress, '127.0.0.1', `::ffff:${nodeAddress}`])
      t.equal(await whoAnswers(client, address, nodePort), '127.0.0.11', address)
    t.equal(await whoAnswers(client, vip, 81), 'ENETUNREACH', 'no port of the Service')
  })

  await t.test('what is not in the cgroup is not led', async t => {
    const script = `require('net').connect(80, '${vip}').on('error', e => console.log(e.code))`
    const said = await stage.node.run(process.execPath, ['-e', script])
    t.equal(said.trim(), 'ENETUNREACH')
  })

  await t.test('a Service without endpoints refuses', async t => {
    t.equal(await whoAnswers(client, '10.96.0.2'), 'ECONNREFUSED')
  })

  await t.test('status and metrics', async t => {
    const detail = new RegExp(`^${stage.group.path}`)
    const document = await stage.status(usher)
    t.match(document, {
      healthy: true,
      connectTime: { state: 'leading', clients: 'all', detail, left: 0 },
    })
    t.same(
      document.problems.filter(({ object }) => object === 'connect-time steering'),
      [],
    )
    const { out } = await stage.run('status', '--address', usher.metrics)
    t.match(out, new RegExp(`^connect +leading \\(${stage.group.path}.*\\)$`, 'm'))
    const metrics = await stage.metrics(usher)
    const of = (name: string) => metrics.get(`usher_connect_time_${name}`)
    t.equal(of('leads'), 1)
    t.equal(of('left'), 0)
    t.equal(of('sync_failures_total'), 0)
    t.equal(of('repairs_total'), 0)
    t.ok((of('syncs_total') ?? 0) > 0)
    t.ok((of('sync_seconds_total') ?? -1) >= 0)
    t.equal(of('led_total{service_port="default/web:p",protocol="TCP"}'), 4)
    t.equal(of('refused_total{service_port="default/none:p",protocol="TCP"}'), 1)
  })

  await t.test(
    'what is explained is what the kernel has',
    { skip: noBpftool },
    async t => {
      // As another Usher would have one, in another cgroup.
      const other = `${stage.bpffs}/other`
      const sizes = 'type hash key 24 value 32 entries 1 name us_services'
      execFileSync('bpftool', ['map', 'create', other, ...sizes.split(' ')])
      const entryAt = async (to: string): Promise<readonly number[]> => {
        const line = ['127.0.0.1', to, '-o', 'json', '--address', usher.metrics]
        const { out } = await stage.run('explain', ...line)
        const { looks } = JSON.parse(out) as AnswerOf<'explain'>
        t.match(looks, [{ what: /: map us_services$/ }], to)
        const command = `${looks[0]?.command} --json`
        const shown = execFileSync('sh', ['-c', command], { encoding: 'utf8' })
        const { value } = JSON.parse(shown) as { value: readonly string[] }
        const bytes = Buffer.from(value.map(Number))
        const { count, refusal } = tables.service
        return [count, refusal].map(field => bytes.readUInt32LE(field))
      }
      t.same(await entryAt(`${vip}:80`), [1, 0])
      t.same(await entryAt(`${nodeAddress}:${nodePort}`), [1, 0])
      t.same(await entryAt('10.96.0.2:80'), [0, constants.errno.ECONNREFUSED])
    },
  )

  await t.test('endpoints that change reach the next connects', async t => {
    await write('127.0.0.12')
    await until(
      'the new one is led to',
      async () => (await whoAnswers(client, vip)) === '127.0.0.12',
    )
    await write()
    await until(
      'it refuses',
      async () => (await whoAnswers(client, vip)) === 'ECONNREFUSED',
    )
    t.equal(await whoAnswers(client, '127.0.0.1', nodePort), 'ECONNREFUSED')
    await write('127.0.0.11')
    await until(
      'it serves again',
      async () => (await whoAnswers(client, vip)) === '127.0.0.11',
    )
  })

  await t.test('one that is silent is passed over once a client gave up', async t => {
    const ip = (...args: string[]) => stage.node.run('ip', args)
    const silent = '198.51.100.9'
    await ip('route', 'add', silent, 'dev', 'node')
    // Nobody has that address: what is sent there is dropped.
    await ip('neighbour', 'add', silent, 'lladdr', '02:00:00:00:00:09', 'dev', 'node')
    await write('127.0.0.11', silent)
    await until(
      'a client waits in vain',
      async () => (await whoAnswers(client, vip)) === 'silence',
    )
    const answers = new Set<string>()
    for (let n = 0; n < 20; n += 1) answers.add(await whoAnswers(client, vip))
    t.same([...answers], ['127.0.0.11'])
  })

  await t.test('its end takes everything out', async t => {
    const keep = () => client.keepTcp(vip, 80, 'open')
    t.same(await keep(), { said: 'goes on' })
    t.equal(stage.isKept(), true)
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    t.equal(stage.isKept(), false)
    // The kernel takes a link whose file has gone from its hook a moment later.
    await until(
      'nobody is led',
      async () => (await whoAnswers(client, vip)) === 'ENETUNREACH',
    )
    t.same(await keep(), { said: 'goes on' }, 'a connection that is open')
  })
})
