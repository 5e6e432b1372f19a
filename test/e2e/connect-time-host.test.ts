// A process of its own: long, and it mostly waits.
import { mkdir, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { missingPrograms } from '../support/installed.ts'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import { startUsherBy } from '../support/usher.ts'
import { makeStage, skip, sliceAt, type Stage, whoAnswers } from './connect-time/stage.ts'

const vip = '10.96.0.1'

const makeServed = async (t: Test): Promise<Stage> => {
  const stage = await makeStage(t)
  const port = await stage.client.serve('127.0.0.11')
  await stage.manifests.write(
    service('web', vip, [{ name: 'p', port: 80 }]),
    sliceAt('web', ['127.0.0.11'], port),
  )
  return stage
}

t.test('--connect-time host leaves pods to the mode', { skip }, async t => {
  const stage = await makeServed(t)
  const pod = await stage.group.client('own')
  const usher = await stage.lead(t, '--connect-time=host')
  t.equal(await whoAnswers(stage.client, vip), '127.0.0.11')
  t.equal(await whoAnswers(pod, vip), 'ENETUNREACH', "nothing of the mode's is there")
  const { connectTime } = await stage.status(usher)
  t.match(connectTime, { state: 'leading', clients: 'host' })
  const { out } = await stage.run('status', '--address', usher.metrics)
  t.match(out, /^connect +leading \(processes of the node, not of its pods; /m)
  usher.send('SIGTERM')
  await usher.exit
  const all = await stage.lead(t)
  t.equal(await whoAnswers(pod, vip), 'ECONNREFUSED', 'led to where nobody listens')
  t.match((await stage.status(all)).connectTime, { clients: 'all' })
})

t.test('a second Usher waits for the end of the first', { skip }, async t => {
  const stage = await makeServed(t)
  const first = await stage.lead(t)
  const second = await stage.start(t)
  const waiting = await second.logged(/^another Usher steers connections/)
  t.match(waiting['holder'], new RegExp(`pid ${first.pid}$`))
  t.match((await stage.status(second)).connectTime, { state: 'waiting' })
  first.send('SIGTERM')
  await second.logged(/^connect-time steering is on/)
  await first.exit
  await until(
    'the second one leads',
    async () => (await whoAnswers(stage.client, vip)) === '127.0.0.11',
  )
  t.equal(stage.isKept(), true)
  t.match((await stage.status(second)).connectTime, { state: 'leading' })
})

const withoutRights = [
  'setpriv',
  '--bounding-set=-bpf,-sys_admin',
  '--inh-caps=-bpf,-sys_admin',
]

const cases = {
  'without a bpffs': {
    flags: [`--connect-time-bpffs=${tmpdir()}`],
    before: [],
    asked: ['auto'],
    why: /^no bpffs is mounted at .*: mount -t bpf bpf /,
  },
  'without a folder': {
    flags: ['--connect-time-bpffs=/nowhere'],
    before: [],
    asked: ['on'],
    why: /^\/nowhere \(--connect-time-bpffs\) can't be looked at \(ENOENT\): make the folder, /,
  },
  'where no cgroup is': {
    flags: [`--connect-time-cgroup=${tmpdir()}`],
    before: [],
    asked: ['auto'],
    why: /\(--connect-time-cgroup\) is no cgroup of cgroup v2; cgroup v2 is mounted at \//,
  },
  'without capabilities': {
    flags: [],
    before: withoutRights,
    asked: ['auto', 'on'],
    why: /^not permitted: it takes CAP_BPF and CAP_NET_ADMIN/,
  },
} as const

t.test(
  'where it does not work',
  { skip: skip || missingPrograms('setpriv') },
  async t => {
    const stage = await makeServed(t)
    for (const [what, { flags, before, asked, why }] of Object.entries(cases))
      for (const wanted of asked)
        await t.test(`${wanted}, ${what}`, async t => {
          const usher = await startUsherBy(
            t,
            [...stage.group.prefix(stage.node), ...before],
            'run',
            ...stage.flags,
            ...flags,
            `--connect-time=${wanted}`,
            '--capture=none',
          )
          const said = await usher.logged('connect-time steering does not work here')
          t.match(said, { level: wanted === 'on' ? 'warn' : 'info', why })
          const { healthy, connectTime, problems } = await stage.status(usher)
          t.equal(healthy, true)
          t.match(connectTime, { state: 'not usable', detail: why })
          const ours = problems.filter(({ object }) => object === 'connect-time steering')
          t.match(ours, wanted === 'auto' ? [] : [{ field: '--connect-time' }])
          t.equal(ours.length, wanted === 'auto' ? 0 : 1)
          t.equal(await whoAnswers(stage.client, vip), 'ENETUNREACH', "the mode's way")
          usher.send('SIGTERM')
          t.match(await usher.exit, { code: 0 })
        })
  },
)

t.test('it begins once it works here', { skip }, async t => {
  const stage = await makeServed(t)
  const late = join(stage.group.path, 'late')
  const usher = await stage.start(t, `--connect-time-cgroup=${late}`)
  await usher.logged('connect-time steering does not work here')
  t.match((await stage.status(usher)).connectTime, { state: 'not usable' })
  await mkdir(late)
  t.teardown(() => rmdir(late))
  await usher.logged(/^connect-time steering is on/)
  const { connectTime, problems } = await stage.status(usher)
  t.match(connectTime, { state: 'leading' })
  t.strictSame(problems, [])
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
  t.equal(stage.isKept(), false)
})
