import t from 'tap'
import { makeNetnsShell } from '../../support/netns-shell.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { meaningOf } from './listing.ts'
import { manyServices, makeWorld, serviceOf, skip, snapshotOf } from './world.ts'
import { situationsOf } from './situations.ts'

const settings = situationsOf('IPv4')['pods by their addresses']?.settings
if (settings === undefined) throw new Error('no settings')

const web = serviceOf('web', [clusterIp('10.96.0.1')], ['10.244.0.1', '10.244.0.2'])
const sticky = serviceOf('sticky', [clusterIp('10.96.0.2')], ['10.244.0.1'], {
  affinityMs: 10_000,
})

/** Put in the place of Usher's own. */
const strangers = (table: string, layout: string): string => `table ${table} {
  set cluster-ips { type inet_service; }
  set affinity-of-old { type ipv4_addr; flags dynamic,timeout; timeout 5s; }
  chain of-old { ip saddr @affinity-of-old drop; }
  ${layout}
}`

for (const [what, isNamed, failures] of [
  ['of another layout is made anew', false, []],
  ['that has another set under a name of this layout is, too', true, ['IPv4 full']],
] as const)
  t.test(`a table ${what}`, { skip }, async t => {
    const { run, clock, told, list, table, proxier } = await makeWorld()
    await proxier().sync(snapshotOf([web, sticky]), settings)
    const first = await list()
    const wanted = meaningOf(first)
    const layout = [...first.chains.keys()].find(name => name.startsWith('layout-'))
    await run('nft', ['delete', 'table', ...table.split(' ')])
    const input = strangers(table, isNamed ? `chain ${layout} {}` : '')
    await run('nft', ['-f', '-'], { input })
    const next = proxier()
    t.same(await next.sync(snapshotOf([web, sticky]), settings), { work: 'full' })
    t.same(meaningOf(await list()), wanted)
    t.same(told, failures)
    clock.advance(10_000)
    t.same(await next.sync(snapshotOf([web]), settings), { work: 'partial' })
    clock.advance(10_000)
    t.same(await next.sync(snapshotOf([web, sticky]), settings), { work: 'partial' })
    t.same(meaningOf(await list()), wanted)
  })

t.test('what was to go and is gone already is missed once', { skip }, async t => {
  const { run, clock, told, inputs, list, table, proxier } = await makeWorld()
  const one = proxier()
  await one.sync(snapshotOf([web, sticky]), settings)
  await one.sync(snapshotOf([web]), settings)
  for (const name of meaningOf(await list()).stale.filter(each =>
    each.startsWith('chain'),
  ))
    await run('nft', ['flush', 'chain', ...table.split(' '), name.replace('chain ', '')])
  for (const name of meaningOf(await list()).stale.filter(each => each.startsWith('set')))
    await run('nft', ['delete', 'set', ...table.split(' '), name.replace('set ', '')])
  clock.advance(10_000)
  const other = { ...web, vips: [clusterIp('10.96.0.3')] }
  await t.rejects(one.sync(snapshotOf([other]), settings))
  t.same(await one.sync(snapshotOf([other]), settings), { work: 'full' })
  t.match(inputs.at(-1), /^delete table/m)
  one.forget()
  t.same(await one.sync(snapshotOf([other]), settings), { work: 'full' })
  t.notMatch(inputs.at(-1), /^delete table/m, 'and made anew once')
  clock.advance(10_000)
  t.same(await one.sync(snapshotOf([web]), settings), { work: 'partial' })
  t.same(meaningOf(await list()).stale, [])
  t.same(told, ['IPv4 partial'])
})

t.test('a chain of others that judges packets goes at once', { skip }, async t => {
  const { run, told, list, table, proxier } = await makeWorld()
  const one = proxier()
  await one.sync(snapshotOf([web, sticky]), settings)
  const wanted = meaningOf(await list())
  const sets = [...(await list()).sets.keys()]
  const input = `table ${table} {
  chain foreign { type filter hook input priority -500; policy drop; }
  chain of-foreign { jump foreign-too; }
  chain foreign-too { }
}`
  await run('nft', ['-f', '-'], { input: input.replace('jump foreign-too;', '') })
  await run('nft', [
    'add',
    'rule',
    ...table.split(' '),
    'of-foreign',
    'jump',
    'foreign-too',
  ])
  one.forget()
  t.same(await one.sync(snapshotOf([web, sticky]), settings), { work: 'full' })
  t.same(meaningOf(await list()), wanted)
  t.same([...(await list()).sets.keys()], sets, 'and the table stays')
  t.same(told, [])
})

t.test('a user namespace takes it in small transactions', { skip }, async t => {
  const run = await makeNetnsShell(true)
  for (const form of ['shared', 'own'] as const) {
    const { inputs, told, list, proxier } = await makeWorld({ run })
    const many = manyServices(form === 'shared' ? 4000 : 800)
    const first = proxier(form)
    t.same(await first.sync(snapshotOf(many), settings), { work: 'full' })
    t.ok(inputs.length > 3, 'one was too long')
    const wanted = meaningOf(await list())
    const ofAll = wanted.lines.filter(line => line.startsWith('service-ips: 10'))
    t.equal(ofAll.length, many.length)
    // In place, and with all of it other than it was.
    t.same(await proxier(form).sync(snapshotOf(many), settings), { work: 'full' })
    t.same(meaningOf(await list()), wanted)
    const moved = manyServices(many.length, 81)
    t.same(await first.sync(snapshotOf(moved), settings), { work: 'partial' })
    t.same(await first.sync(snapshotOf(many), settings), { work: 'partial' })
    t.same(meaningOf(await list()).lines, wanted.lines)
    t.same(told, [])
  }
})
