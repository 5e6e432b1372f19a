import t from 'tap'
import { fullRules } from '../../../src/kernel/iptables/full-rules.ts'
import { fullRestore } from '../../../src/kernel/iptables/restore-text.ts'
import { iptablesOwner } from '../../../src/kernel/iptables/names.ts'
import { readTable } from '../../../src/kernel/xtables/saved.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { until } from '../../support/until.ts'
import { firstSync, linesOf } from './first-sync.ts'
import { makeWorld, service, settings, skip, snapshotOf, type World } from './world.ts'

const web = service('web', 1, ['10.1.0.1', '10.1.0.2'])
const db = service('db', 2, ['10.1.0.3'])
const features = { randomFully: true, conntrackLiberal: false, nfacct: false, sctp: true }

/** A gate in the way of what it is asked to stop, and how many wait there. */
const gate = () => {
  let open = (): void => {}
  const opened = new Promise<void>(resolve => (open = resolve))
  const gated = { isUsed: false, waiting: 0, open: () => open() }
  const around =
    (stops: (...call: Parameters<RunTool>) => boolean) =>
    (run: RunTool): RunTool =>
    async (...call) => {
      if (!gated.isUsed || !stops(...call)) return run(...call)
      gated.waiting++
      await opened
      return run(...call)
    }
  return { gated, around }
}

const saved = async (world: World): Promise<readonly string[]> =>
  linesOf([await world.save('filter'), await world.save('nat')])

t.test('where SCTP can’t be matched the others are served', { skip }, async t => {
  const without =
    (run: RunTool): RunTool =>
    async (...call) => {
      if (call[2]?.input?.includes('-m sctp'))
        throw new ToolError("Couldn't load match `sctp'", 'failed', '')
      return run(...call)
    }
  const world = await makeWorld({ around: without })
  const sip = { ...db, protocol: 'SCTP', key: 'default/db:p/SCTP' } as const
  await world.proxier.sync(snapshotOf([web, sip]), settings)
  t.match(world.proxier.problems(), [
    { object: 'Service default/db', message: /not served.*xt_sctp/ },
  ])
  t.match(await world.save('nat'), '10.1.0.1')
  t.notMatch(await world.save('nat'), '10.1.0.3')
  await world.proxier.sync(snapshotOf([web]), settings)
  t.strictSame(world.proxier.problems(), [])
})

t.test('what closes while it writes does not write any more', { skip }, async t => {
  const { gated, around } = gate()
  const world = await makeWorld({ around: around(command => command.endsWith('-save')) })
  gated.isUsed = true
  const syncing = world.proxier.sync(snapshotOf([web]), settings)
  await until('the tables to be read', () => gated.waiting === 2)
  world.proxier.close()
  gated.open()
  await t.rejects(syncing, /has ended/)
  t.notMatch(await world.save('nat'), 'KUBE-SERVICES')
})

t.test('what is forgotten while it is written is written again', { skip }, async t => {
  const { gated, around } = gate()
  const world = await makeWorld({
    around: around(
      (_command, _args, options) => options?.input?.includes('10.1.0.3') === true,
    ),
  })
  await world.proxier.sync(snapshotOf([web]), settings)
  gated.isUsed = true
  const syncing = world.proxier.sync(snapshotOf([web, db]), settings)
  await until('the restore', () => gated.waiting === 1)
  world.proxier.forget()
  gated.open()
  t.equal((await syncing).work, 'partial')
  t.equal((await world.proxier.sync(snapshotOf([web, db]), settings)).work, 'full')
  t.same(await saved(world), firstSync([web, db]))
})

t.test('an hour later all is written again, in a cluster that is not large', async t => {
  const run: RunTool = async (_command, args) =>
    args[0] === '--version' ? 'iptables v1.8.9 (nf_tables)' : ''
  const world = await makeWorld({ around: () => run })
  const works = async (of: typeof web): Promise<readonly string[]> => {
    const all: string[] = []
    for (const ms of [0, 3_600_000, 1]) {
      world.clock.advance(ms)
      all.push((await world.proxier.sync(snapshotOf([of]), settings)).work)
    }
    return all
  }
  t.same(await works(web), ['full', 'nothing', 'full'])
  const many = Array.from({ length: 1001 }, (_, i) => `10.2.${i >> 8}.${i & 255}`)
  t.same(await works(service('web', 1, many)), ['partial', 'nothing', 'nothing'])
})

for (const [what, stderr] of [
  [
    'a lock that somebody else holds',
    'Another app is currently holding the xtables lock; still 0s 0us time ahead to have a chance to grab the lock...\n',
  ],
  [
    'a table that somebody else changes',
    'iptables-restore: line 3 failed: Resource temporarily unavailable.\n',
  ],
] as const)
  t.test(`${what} says nothing of what the kernel has`, { skip }, async t => {
    let isBusy = true
    const world = await makeWorld({
      backend: 'legacy',
      around: run => async (command, args, options) => {
        if (isBusy && options?.input?.includes('--random-fully') === true)
          throw new ToolError(stderr, 'failed', stderr)
        return run(command, args, options)
      },
    })
    await t.rejects(world.proxier.sync(snapshotOf([web]), settings), ToolError)
    isBusy = false
    await world.proxier.sync(snapshotOf([web]), settings)
    t.same(await saved(world), firstSync([web]), 'with --random-fully')
  })

t.test(
  'a table that was not read to its end is not taken for empty',
  { skip },
  async t => {
    let isCut = true
    const world = await makeWorld({
      around: run => async (command, args, options) => {
        const text = await run(command, args, options)
        return isCut && command.endsWith('-save') ? text.slice(0, 150) : text
      },
    })
    await world.restore(
      '*nat\n:MY-CHAIN - [0:0]\nCOMMIT\n*filter\n:MY-CHAIN - [0:0]\nCOMMIT\n',
    )
    await t.rejects(world.proxier.sync(snapshotOf([web]), settings), /read to its end/)
    isCut = false
    await world.proxier.sync(snapshotOf([web]), settings)
    t.match(await world.save('nat'), '-j KUBE-SERVICES')
  },
)

t.test(
  'a process that was killed while it wrote leaves nothing behind',
  { skip },
  async t => {
    const world = await makeWorld()
    const read = (table: string) => readTable('', table, iptablesOwner)
    const [filter, nat] = [await read('filter'), await read('nat')]
    const rules = fullRules(snapshotOf([web, db]), settings, features)
    const parts = (await fullRestore(rules, { filter, nat }, 2)).split(/(?<=COMMIT\n)/)
    t.ok(parts.length > 4)
    for (let written = 1; written < parts.length; written++) {
      await world.restore('*nat\n-F\n-X\nCOMMIT\n*filter\n-F\n-X\nCOMMIT\n')
      await world.restore(parts.slice(0, written).join(''))
      await world.another().sync(snapshotOf([web]), settings)
      t.same(await saved(world), firstSync([web]), `${written} of ${parts.length}`)
    }
  },
)

t.test(
  'what is twice, renamed or of others is there once after a sync',
  { skip },
  async t => {
    const world = await makeWorld()
    await world.proxier.sync(snapshotOf([web]), settings)
    const jump =
      '-I OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\n'
    await world.restore(`*nat\n${jump}${jump}COMMIT\n`)
    await world.run('iptables-nft', ['-t', 'nat', '-E', 'KUBE-NODEPORTS', 'RENAMED'])
    world.proxier.forget()
    await world.proxier.sync(snapshotOf([web]), settings)
    const rest = (await saved(world)).filter(line => !line.includes('RENAMED'))
    t.same(rest, firstSync([web]))
  },
)
