// A process of its own: long, and it mostly waits.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { pinsFolder } from '../../src/kernel/bpf/pins.ts'
import { runTool } from '../../src/kernel/run-tool.ts'
import { missingPrograms } from '../support/installed.ts'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import type { Usher } from '../support/usher.ts'
import { beginLoad, failed } from './connect-time/load.ts'
import { makeStage, skip, sliceAt, type Stage, whoAnswers } from './connect-time/stage.ts'

const vip = '10.96.0.1'
const p = [{ name: 'p', port: 80 }]

const makeServed = async (t: Test): Promise<Stage> => {
  const stage = await makeStage(t)
  const port = await stage.client.serve('127.0.0.11')
  await stage.manifests.write(
    service('web', vip, p),
    sliceAt('web', ['127.0.0.11'], port),
  )
  return stage
}

const nobodyIsLed = ({ client }: Stage): Promise<void> =>
  // The kernel takes a link whose file has gone from its hook a moment later.
  until('nobody is led', async () => (await whoAnswers(client, vip)) !== '127.0.0.11')

/** Ends one, and starts another, while clients dial. */
const restart = async (
  t: Test,
  stage: Stage,
  usher: Usher,
  signal: NodeJS.Signals,
  flags: readonly string[],
): Promise<Usher> => {
  const end = await beginLoad(t, stage, [`${vip} 80`], 1)
  await sleep(100)
  usher.send(signal)
  await usher.exit
  t.equal(await whoAnswers(stage.client, vip), '127.0.0.11', 'led without Usher')
  const next = await stage.lead(t, ...flags)
  await sleep(100)
  const connects = await end()
  t.ok(connects.length > 20, `${connects.length} connects`)
  t.same(failed(connects).slice(0, 3), [], 'none has failed')
  const { connectTime } = await stage.status(next)
  t.match(connectTime, { state: 'leading' })
  return next
}

const ways = {
  'userspace mode with --keep-rules': {
    flags: ['--keep-rules'],
    tools: [],
    signals: ['SIGTERM', 'SIGKILL'],
  },
  'nftables mode': {
    flags: ['--proxy-mode=nftables'],
    tools: ['nft'],
    signals: ['SIGTERM', 'SIGKILL'],
  },
  'iptables mode': {
    flags: ['--proxy-mode=iptables'],
    tools: ['iptables'],
    signals: ['SIGTERM'],
  },
} as const

for (const [way, { flags, tools, signals }] of Object.entries(ways)) {
  const missing = skip || missingPrograms(...tools)
  t.test(`restarts in ${way} cost no connect`, { skip: missing }, async t => {
    const stage = await makeServed(t)
    let usher = await stage.lead(t, ...flags)
    for (const signal of signals)
      await t.test(signal, async t_ => {
        t_.equal(await whoAnswers(stage.client, vip), '127.0.0.11')
        // It lives on after this subtest.
        usher = await restart(t, stage, usher, signal, flags)
      })
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    t.equal(stage.isKept(), true)
    if (way !== 'nftables mode') return
    await t.test('one without it takes it out', async t => {
      const off = await stage.start(t, '--connect-time=off')
      await off.logged('removed leftovers of another mode or capture')
      t.equal(stage.isKept(), false)
      await nobodyIsLed(stage)
      t.equal((await stage.status(off)).connectTime, null)
    })
  })
}

t.test('/livez is red where programs can not be removed', { skip }, async t => {
  const stage = await makeServed(t)
  const usher = await stage.lead(t)
  const isLive = async (): Promise<boolean> =>
    !/"healthy":false/.test(await stage.client.get(`http://${usher.healthz}/livez`))
  const remount = (how: string) =>
    runTool('mount', ['-o', `remount,bind,${how}`, stage.bpffs])
  const [layout = ''] = await readdir(pinsFolder(stage.bpffs))
  await rm(join(pinsFolder(stage.bpffs), layout, 'table-services'))
  await remount('ro')
  const words = /leads clients by old entries, as its programs can't be removed: .*EROFS/
  t.equal(await isLive(), true)
  await until('it is red', async () => !(await isLive()))
  t.equal(await whoAnswers(stage.client, vip), '127.0.0.11', 'they are led still')
  const { connectTime, problems } = await stage.status(usher)
  t.match(connectTime, { state: 'failed' })
  t.ok(problems.some(({ message }) => words.test(message)))
  await remount('rw')
  await stage.manifests.write(service('other', '10.96.0.2', p))
  await until('it leads again', async () => {
    const now = await stage.status(usher)
    return now.connectTime?.state === 'leading'
  })
  t.equal(await isLive(), true)
  await nobodyIsLed(stage) // The other one is there in place of it.
})

t.test('usher cleanup removes what one that was killed has left', { skip }, async t => {
  const stage = await makeServed(t)
  const usher = await stage.lead(t)
  const flags = ['--connect-time-bpffs', stage.bpffs, '--only-usher']
  const refused = await stage.run('cleanup', ...flags)
  t.equal(refused.code, 1)
  t.match(refused.err, /an Usher is running here \(usher .*, pid \d+\); end it first/)
  t.equal(await whoAnswers(stage.client, vip), '127.0.0.11', 'it leads still')
  usher.send('SIGKILL')
  await usher.exit
  t.equal(await whoAnswers(stage.client, vip), '127.0.0.11', 'led by one that was killed')
  const dry = await stage.run('cleanup', '--dry-run', ...flags)
  t.match(dry.out, /^would remove connect-time steering, kept in /m)
  t.equal(stage.isKept(), true)
  const { code, out } = await stage.run('cleanup', ...flags)
  t.equal(code, 0)
  t.match(out, /^removed connect-time steering, kept in /m)
  t.equal(stage.isKept(), false)
  await nobodyIsLed(stage)
})
