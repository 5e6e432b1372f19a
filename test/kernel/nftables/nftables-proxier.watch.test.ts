import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Monitor } from '../../../src/kernel/nft/monitor.ts'
import { NftablesProxier } from '../../../src/kernel/nftables/nftables-proxier.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { makeNetns } from '../../support/netns.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { until } from '../../support/until.ts'
import { situationsOf } from './situations.ts'
import { manyServices, serviceOf, skip, snapshotOf } from './world.ts'

const settings = situationsOf('IPv4')['pods by their addresses']?.settings
if (settings === undefined) throw new Error('no settings')

const table = 'ip usher-services'
const some = manyServices(20)
const more = serviceOf('more', [clusterIp('10.96.9.1')], ['10.244.9.1'])

const five = serviceOf(
  'five',
  [clusterIp('10.96.9.5')],
  Array.from({ length: 5 }, (_, n) => `10.244.9.${n + 1}`),
)

/** `by` in place of `nft monitor`. */
const watched = async (by?: readonly string[]) => {
  const { run, prefix } = await makeNetns('nft-watch')
  const [ip = '', ...args] = prefix
  const monitor = new Monitor({
    clock: systemClock,
    tables: ['usher-services'],
    spawn: (command, words) =>
      spawn(ip, [...args, ...(by ?? [command, ...words])], {
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
  })
  const observer = { restoreFailed: () => {}, failed: () => {} }
  const form = () => 'shared' as const
  let ahead = 0
  const clock = { ...systemClock, now: () => systemClock.now() + ahead }
  const advance = (ms: number): void => void (ahead += ms)
  const deps = { run, clock, observer, monitor, table, form }
  const proxier = new NftablesProxier('IPv4', deps)
  await proxier.sync(snapshotOf(some), settings)
  const reports: string[] = []
  t.teardown(proxier.watch(what => void reports.push(what)))
  return { run, proxier, reports, advance }
}

t.test('damage is noticed, and what Usher does itself is none', { skip }, async t => {
  const { run, proxier, reports } = await watched()
  // Its monitor is there, and the first count is done.
  await sleep(2500)
  const damages = [
    'delete element ip usher-services service-ips { 10.96.0.0 . 6 . 80 }',
    'delete element ip usher-services endpoints-tcp { 10.96.0.0 . 80 . 0 }',
    'add element ip usher-services cluster-ips { 192.0.2.1 }',
    'flush map ip usher-services service-ips',
    'insert rule ip usher-services nat-prerouting accept',
    'flush chain ip usher-services refuse',
    'delete table ip usher-services',
    'flush ruleset',
  ]
  for (const damage of damages) {
    // All is written again, and once more: rules go that look into sets.
    for (const all of [some, [...some, more], some]) {
      proxier.forget()
      await proxier.sync(snapshotOf(all), settings)
    }
    await proxier.sync(snapshotOf([...some, more]), settings)
    await sleep(500)
    t.same(reports, [], `before ${damage}`)
    await run('nft', ['-f', '-'], { input: `${damage}\n` })
    await until(damage, () => reports.length > 0)
    t.match(reports, [/usher-services/], damage)
    // A count may have seen it, too. None does that ends after the repair.
    proxier.forget()
    await proxier.sync(snapshotOf(some), settings)
    await sleep(200)
    reports.length = 0
  }
})

t.test('so is another value, also after rules have gone', { skip }, async t => {
  const { run, proxier, reports, advance } = await watched()
  // All is written again; then a chain for five endpoints comes, and is needed no more.
  proxier.forget()
  for (const all of [some, [...some, five], some])
    await proxier.sync(snapshotOf(all), settings)
  advance(10_000)
  await proxier.sync(snapshotOf([...some, more]), settings)
  // The monitor runs anew, and the count after that is done.
  await sleep(4500)
  t.same(reports, [])
  for (const [map, key, value] of [
    ['endpoints-tcp', '10.96.0.0 . 80 . 0', '192.0.2.1 . 80'],
    ['service-ips', '10.96.0.1 . 6 . 80', 'drop'],
  ] as const) {
    const element = `element ip usher-services ${map}`
    const input = `delete ${element} { ${key} }\nadd ${element} { ${key} : ${value} }\n`
    await run('nft', ['-f', '-'], { input })
    await until(map, () => reports.length > 0)
    t.match(reports, [new RegExp(`delete ${element}`)])
    await sleep(200)
    reports.length = 0
  }
})

t.test('what a monitor has missed is found by the count', { skip }, async t => {
  const { run, proxier, reports } = await watched(['sleep', '60'])
  await run('nft', ['flush', 'chain', 'ip', 'usher-services', 'refuse'])
  // A chain of its own comes: a listing of now can't be compared with the one before.
  await proxier.sync(snapshotOf([...some, five]), settings)
  await until('the count', () => reports.length > 0)
  t.match(reports, [/chain refuse has 0, not \d/])
})
