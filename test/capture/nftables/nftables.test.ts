import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { guardedNftables, removeGuards } from '../../../src/capture/nftables.ts'
import {
  nftablesKind,
  servicesMonitor,
} from '../../../src/kernel/nftables/nftables-kind.ts'
import { plainSettings } from '../../../src/kernel/proxier.ts'
import { ToolError } from '../../../src/kernel/run-tool.ts'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { makeNetns } from '../../support/netns.ts'
import { until } from '../../support/until.ts'
import { steeredOf } from '../steered-table.ts'
import { both, rule, settings, tablesIn } from './rules.ts'
import { skip } from './skip.ts'

const foreign = `table ip kube-proxy {
	set usher { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 }; }
	chain usher { type nat hook prerouting priority -100; policy accept; ip daddr @usher dnat to 10.0.0.9; };
}
table inet usher { chain input { type filter hook input priority 0; tcp dport 22 counter accept; }; }
table ip usher-probes { chain own { counter; }; }
`

/** `rules` VIPs with one port each. */
const many = (rules: number) =>
  Array.from({ length: rules }, (_, i) =>
    rule(`10.${96 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`, 80, 4001),
  )

const withTable = async () => {
  const netns = await makeNetns('nft-table')
  const seen = tablesIn(netns)
  const nft = (line: string) => netns.run('nft', line.split(' '))
  return { ...seen, netns, nft, table: seen.table('IPv4') }
}

/** What is written, whom it touches, and what it costs. */
t.test('the table', async t => {
  t.test(
    'nftables: tables of others stay as they are, byte for byte',
    { skip },
    async t => {
      const { netns, nft, table } = await withTable()
      await netns.run('nft', ['-f', '-'], { input: foreign })
      const before = await nft('-a list ruleset')
      const guarded = rule('10.96.0.9', 80, 4001, { allowedClients: ['10.0.0.0/8'] })
      await table.replace([...many(3), guarded], settings('IPv4'))
      await table.change([guarded], [rule('10.96.0.8', 80, 4001)])
      await table.hold()
      await table.replace(many(2), settings('IPv4'))
      t.match(await nft('list tables'), /table ip usher\n/)
      t.match(await nft('list tables'), /table ip usher-services\n/)
      await table.remove()
      t.equal(await nft('-a list ruleset'), before)
      await table.remove()
      t.equal(await nft('-a list ruleset'), before, 'nothing to remove is no error')
    },
  )

  t.test(
    'nftables: 10 000 VIPs are written, and one changed, alone',
    { skip },
    async t => {
      const { inputs, calls, nft, table } = await withTable()
      const rules = many(10_000)
      await table.replace(rules, settings('IPv4'))
      t.same(
        calls,
        [
          'nft list chains ip',
          'nft --check -f -',
          'nft -f -',
          'nft list chains ip',
          'nft -f -',
        ],
        'what is there, what the kernel knows, the guard, and what leads',
      )
      calls.length = 1
      const [first, second] = rules
      if (first === undefined || second === undefined) throw new Error('no rules')
      await table.change([first], [{ ...first, to: { ...first.to, port: 9 } }])
      t.equal(calls.length, 2, 'one call')
      t.ok((inputs.at(-1)?.length ?? 0) < 300, 'of a few words')
      t.match(
        await nft(
          'get element ip usher-services relayed-service-ips { 10.96.0.0 . 6 . 80 }',
        ),
        /77\.88 \. 9 \}/,
      )
      await table.change([second], [{ ...second, name: 'renamed/web' }])
      await table.change([], [])
      t.equal(calls.length, 2, 'nothing to change is nothing to run')
    },
  )

  t.test('nftables: what others took out makes a change fail', { skip }, async t => {
    const { nft, table } = await withTable()
    const [tcp, udp] = both('10.96.0.1', 80, 4001)
    if (tcp === undefined || udp === undefined) throw new Error('no rules')
    await t.rejects(table.release(), ToolError, 'before anything was written')
    await table.replace([tcp, udp], settings('IPv4'))
    const map = 'ip usher-services relayed-service-ips'
    await nft(`delete element ${map} { 10.96.0.1 . tcp . 80 }`)
    await t.rejects(table.change([tcp], []), ToolError)
    await table.hold()
    t.match(await nft('list chain ip usher hold'), /drop\n/, 'which holds nevertheless')
    t.same(await table.change([], []), { work: 'full' }, 'all is written then')
    t.match(await nft(`list map ${map}`), /elements = \{ 10\.96\.0\.1 \. udp \. 80 /)
    t.match(await nft('list chain ip usher hold'), /drop\n/, 'and still holds')
    await table.change([udp], [])
    t.notMatch(await nft(`list map ${map}`), /elements/)
  })

  t.test(
    'nftables: changes by others are reported, own ones are not',
    { skip },
    async t => {
      const { monitors, netns, nft, table } = await withTable()
      const rules = many(10)
      await table.replace(rules, settings('IPv4'))
      const reports: string[] = []
      t.teardown(table.watch(what => void reports.push(what)))
      await until('the monitor hears', async () => {
        await nft('add rule ip usher hold accept')
        // By its words: a look at the table may have been first.
        return reports.some(one => one.startsWith('nft (process'))
      })
      // What comes within 100 ms of another damage is reported with that.
      await setTimeout(500)
      reports.length = 0
      const damages = [
        ['flush map ip usher-services relayed-service-ips', /ip usher-services/],
        ['flush chain ip usher-services refuse', /ip usher-services/],
        ['delete table ip usher-services', /ip usher-services/],
        ['flush chain ip usher to-proxy', /ip usher(?: |:|$)/],
        ['delete table ip usher', /ip usher(?: |:|$)/],
        ['flush ruleset', /ip usher/],
      ] as const
      for (const [damage, words] of damages) {
        await table.replace(rules, settings('IPv4'))
        await table.change(rules.slice(0, 1), [])
        await table.change([], rules.slice(0, 1))
        await netns.run('nft', ['-f', '-'], { input: `table ip usher-2 {\n}\n` })
        // All was written, and the monitor began anew with that.
        await setTimeout(2500)
        t.same(reports, [], `before ${damage}`)
        await nft(damage)
        await until(damage, () => reports.length > 0)
        t.match(reports, [words], `nothing but ${damage}`)
        // A count may have seen it, too. None does that ends after the repair.
        await table.replace(rules, settings('IPv4'))
        await setTimeout(200)
        reports.length = 0
      }
      await table.replace(rules, settings('IPv4'))
      await setTimeout(2500)
      monitors.at(-1)?.kill()
      await nft('flush map ip usher-services relayed-service-ips')
      reports.length = 0
      await until('damage while the monitor was away', () => reports.length > 0)
    },
  )

  t.test('nftables: what it did itself is no damage', { skip }, async t => {
    const { netns, nft, table } = await withTable()
    const reports: string[] = []
    t.teardown(table.watch(what => void reports.push(what)))
    const guarded = rule('10.96.0.9', 80, 4001, { allowedClients: ['10.0.0.0/8'] })
    for (let i = 0; i < 20; i++) {
      await table.replace(many(100), settings('IPv4'))
      await table.change([], [guarded])
      await table.hold()
    }
    await until('a change of others comes after all of them', async () => {
      await nft('flush chain ip usher-services refuse')
      return reports.length > 0
    })
    t.match(reports, [/refuse/])
    t.ok(netns)
  })

  t.test('nftables: an earlier version’s table led by itself', { skip }, async t => {
    const { netns, nft, table } = await withTable()
    const earlier = `table ip usher {
  map vips { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
  chain hold { }
  chain nat-prerouting { type nat hook prerouting priority -100; dnat ip to ip daddr . meta l4proto . th dport map @vips; }
}
`
    await netns.run('nft', ['-f', '-'], { input: earlier })
    await table.hold()
    t.match(await nft('list chain ip usher hold'), /drop\n/, 'its clients wait')
    await table.replace(many(2), settings('IPv4'))
    t.notMatch(await nft('list table ip usher'), /nat-|vips/)
    t.match(await nft('list chain ip usher hold'), /drop\n/, 'until all is written')
    await table.release()
    t.notMatch(await nft('list chain ip usher hold'), /drop\n/)
    await netns.run('nft', ['delete', 'table', 'ip', 'usher'])
    await netns.run('nft', ['-f', '-'], { input: earlier })
    await table.remove()
    t.equal(await nft('list ruleset'), '', 'and goes as what leads and guards does')
  })

  t.test(
    'nftables: beside endpoints there is a guard once the relay serves',
    { skip },
    async t => {
      const { netns, nft, spawnMonitor } = await withTable()
      const { run } = netns
      const observer = { restoreFailed: () => {}, failed: () => {} }
      const monitor = servicesMonitor({ clock: systemClock, spawn: spawnMonitor })
      const deps = { run, clock: systemClock, monitor, onBlind: () => {} }
      const kind = nftablesKind({ ...deps, observer })
      const proxier = guardedNftables(kind, deps).proxier('IPv4')
      const one = steeredOf(rule('10.96.0.1', 80, 4001))
      const sync = (...all: ServicePort[]) =>
        proxier.sync(
          {
            family: 'IPv4',
            servicePorts: new Map(all.map(each => [each.key, each])),
            healthChecks: new Map(),
          },
          {
            ...plainSettings,
            ...(all.length > 0 && {
              relay: { serves: 'beside endpoints', nodePods: [] },
            }),
          },
        )
      const tables = async () =>
        (await nft('list tables')).trim().split('\n').toSorted().join()
      await sync()
      const reports: string[] = []
      t.teardown(proxier.watch(what => void reports.push(what)))
      t.equal(await tables(), 'table ip usher-services')
      await nft('add table ip usher')
      await nft('delete table ip usher')
      t.same(await sync(one), { work: 'full' })
      t.equal(await tables(), 'table ip usher,table ip usher-services')
      t.same(await sync(one), { work: 'nothing' })
      await setTimeout(3500)
      t.same(reports, [], 'what went before it was written is no damage')
      await nft('flush chain ip usher to-proxy')
      await until('damage', () => reports.length > 0)
      t.match(reports, [/ip usher(?: |:|$)/])
      proxier.forget()
      t.same(await sync(one), { work: 'full' })
      t.match(await nft('list chain ip usher to-proxy'), /not sent to a Service/)
      await removeGuards(run)
      t.equal(await tables(), 'table ip usher-services', 'the mode goes on')
      await removeGuards(run)
    },
  )
})
