import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import {
  endpointChainName,
  serviceChainNames,
} from '../../../src/kernel/iptables/names.ts'
import { ToolError, type RunTool } from '../../../src/kernel/run-tool.ts'
import { until } from '../../support/until.ts'
import {
  backends,
  makeWorld,
  service,
  settings,
  skip,
  snapshotOf,
  type World,
} from './world.ts'

const { cluster } = serviceChainNames('default/web', 'tcp')
const web = service('web', 1, ['10.1.0.1', '10.1.0.2'])
/** So many that a look which does not list tables would not read KUBE-SERVICES whole. */
const many = Array.from({ length: 110 }, (_, i) => service(`s${i}`, i + 10, ['10.1.0.9']))

const damages: readonly (readonly [what: string, text: string, said: RegExp])[] = [
  ['an emptied nat table', '*nat\n-F\nCOMMIT\n', /table nat/],
  ['a nat table without chains', '*nat\n-F\n-X\nCOMMIT\n', /nat/],
  ['a lost jump', '*filter\n-F OUTPUT\nCOMMIT\n', /OUTPUT .* is gone \(table filter\)/],
  [
    'a jump with another condition',
    '*nat\n-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\n' +
      '-I PREROUTING -s 192.0.2.1/32 -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\n' +
      'COMMIT\n',
    /jump from PREROUTING to KUBE-SERVICES is gone \(table nat\)/,
  ],
  [
    'an emptied KUBE-SERVICES',
    '*nat\n-F KUBE-SERVICES\nCOMMIT\n',
    /KUBE-SERVICES of table nat has 0 rules instead of \d+/,
  ],
  ...[cluster, endpointChainName('default/web', 'tcp', '10.1.0.2:8080')].map(
    chain =>
      [
        `an emptied ${chain}, of one Service`,
        `*nat\n-F ${chain}\nCOMMIT\n`,
        new RegExp(`${chain} of table nat has 0 rules instead of \\d`),
      ] as const,
  ),
  [
    'a rule more in a chain of one Service',
    `*nat\n-I ${cluster} -j RETURN\nCOMMIT\n`,
    /KUBE-SVC-.* of table nat has 4 rules instead of 3/,
  ],
  [
    'an emptied KUBE-FIREWALL',
    '*filter\n-F KUBE-FIREWALL\nCOMMIT\n',
    /KUBE-FIREWALL to DROP is gone/,
  ],
  ['an emptied KUBE-FORWARD', '*filter\n-F KUBE-FORWARD\nCOMMIT\n', /KUBE-FORWARD/],
  [
    'a lost canary',
    '*mangle\n-X KUBE-PROXY-CANARY\nCOMMIT\n',
    /chain KUBE-PROXY-CANARY of table mangle is gone/,
  ],
]

/** Looks of the canary come to an end in real time, whatever the clock says. */
const look = async (world: World, seen: () => boolean): Promise<void> => {
  await until('a look of the canary', () => {
    if (world.clock.waiting > 0) world.clock.advance(500)
    return seen()
  })
}

for (const backend of backends) {
  t.test(`${backend}: the canary notices`, { skip }, async t => {
    const world = await makeWorld({ backend })
    const damaged: string[] = []
    const stop = world.proxier.watch(what => damaged.push(what))
    for (const [what, text, said] of damages) {
      world.proxier.forget()
      await world.proxier.sync(snapshotOf([web, ...many]), settings)
      damaged.length = 0
      await world.restore(text)
      await look(world, () => damaged.length > 0)
      t.match(damaged[0], said, what)
    }
    stop()
    t.equal(world.clock.waiting, 0)
  })

  t.test(`${backend}: the canary is content with what is right`, { skip }, async t => {
    let reads = 0
    const world = await makeWorld({
      backend,
      around: run => async (command, args, options) => {
        const text = await run(command, args, options)
        if (command.endsWith('-save')) reads++
        return text
      },
    })
    const damaged: string[] = []
    const stop = world.proxier.watch(what => damaged.push(what))
    await world.proxier.sync(snapshotOf([web, ...many]), settings)
    await look(world, () => reads >= 6)
    for (let i = 0; i < 5; i++) {
      const syncing = world.proxier.sync(snapshotOf(many.slice(i)), settings)
      world.clock.advance(4000)
      await syncing
      await look(world, () => world.clock.waiting > 0)
    }
    t.same(damaged, [])
    stop()
    t.equal(world.clock.waiting, 0)
  })
}

t.test('a look takes at most 5 s to come', { skip }, async t => {
  const world = await makeWorld()
  const damaged: string[] = []
  const stop = world.proxier.watch(what => damaged.push(what))
  await world.proxier.sync(snapshotOf([web]), settings)
  await world.restore('*nat\n-F\nCOMMIT\n')
  world.clock.advance(5000)
  await until('the damage', () => damaged.length > 0)
  t.equal(damaged.length, 1)
  stop()
})

t.test('where the kernel tells of no change, looks run no tool', { skip }, async t => {
  let runs = 0
  const world = await makeWorld({
    isTold: true,
    around: run => (command, args, options) => {
      runs++
      return run(command, args, options)
    },
  })
  const damaged: string[] = []
  const stop = world.proxier.watch(what => damaged.push(what))
  t.teardown(stop)
  await world.proxier.sync(snapshotOf([web]), settings)
  /** How many tools the next looks run. */
  const looks = async (count: number): Promise<number> => {
    const before = runs
    for (let i = 0; i < count; i++) {
      await until('the look before', () => world.clock.waiting > 0)
      world.clock.advance(4000)
    }
    await until('the last look', () => world.clock.waiting > 0)
    return runs - before
  }
  await until('all is still', async () => (await looks(1)) === 0)
  t.equal(await looks(20), 0)
  t.ok((await looks(75)) > 0, 'once in 5 minutes, whatever is told')
  for (const text of ['*nat\n-F PREROUTING\nCOMMIT\n', '*filter\n-F\nCOMMIT\n']) {
    await world.restore(text)
    await setTimeout(100)
    t.ok((await looks(1)) > 0)
    t.equal(damaged.length, 1, text)
    damaged.length = 0
    world.proxier.forget()
    await world.proxier.sync(snapshotOf([web]), settings)
    await until('all is still again', async () => (await looks(1)) === 0)
  }
})

t.test('a canary that can not look says nothing', { skip }, async t => {
  let reads = 0
  const fail: RunTool = async () => {
    reads++
    throw new ToolError('iptables-restore: not found', 'missing', '')
  }
  let broken = false
  const world = await makeWorld({
    around:
      run =>
      (...call) =>
        broken ? fail(...call) : run(...call),
  })
  const damaged: string[] = []
  const stop = world.proxier.watch(what => damaged.push(what))
  await world.proxier.sync(snapshotOf([web]), settings)
  broken = true
  await look(world, () => reads > 2)
  t.same(damaged, [])
  stop()
})
