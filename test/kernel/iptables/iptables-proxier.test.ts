import t from 'tap'
import type { ServicePort } from '../../../src/model/snapshot.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import {
  endpointChainName,
  serviceChainNames,
} from '../../../src/kernel/iptables/names.ts'
import { planTable } from '../../../src/kernel/cleanup/iptables.ts'
import type { Backend } from '../../../src/kernel/xtables/backend.ts'
import { takeOut } from '../../../src/kernel/xtables/restore-text.ts'
import { savedTables } from '../cleanup/saved-tables.ts'
import { clusterIp, nodePort } from '../../support/service-ports.ts'
import { changedOf, crowd } from './crowd.ts'
import { firstSync, linesOf } from './first-sync.ts'
import {
  backends,
  makeWorld,
  rulesOf,
  service,
  settings,
  skip,
  snapshotOf,
} from './world.ts'

const web = service('web', 1, ['10.1.0.1', '10.1.0.2'])
const db = service('db', 2, ['10.1.0.3'], { affinityMs: 10_800_000 })
const none = service('none', 3, [])
const all = service('all', 4, ['10.1.0.4', '10.1.0.5'], {
  vips: [
    clusterIp('10.96.0.4'),
    nodePort('0.0.0.0'),
    { kind: 'ExternalIP', address: '198.51.100.4', port: 80 },
    { kind: 'LoadBalancerIP', address: '192.0.2.4', port: 80 },
  ],
  sourceRanges: ['203.0.113.0/24'],
  externalTrafficPolicy: 'Local',
  external: { verdict: 'drop', endpoints: [] },
})

/** A firewall's rules between which the jumps are. */
const foreign = `*filter
:MY-CHAIN - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j MY-CHAIN
-A FORWARD -s 192.0.2.0/24 -j DROP
-A MY-CHAIN -m comment --comment "to -j KUBE-SERVICES" -j RETURN
COMMIT
*nat
:OTHER-CHAIN - [0:0]
-A PREROUTING -p tcp -m tcp --dport 8000 -j OTHER-CHAIN
-A OTHER-CHAIN -p tcp -j DNAT --to-destination 192.0.2.9:1
COMMIT
*mangle
-A PREROUTING -j MARK --set-xmark 0x1/0x1
COMMIT
`

const withoutKube = (saved: string): string =>
  saved
    .split('\n')
    .filter(line => !line.includes(' KUBE-') && !line.startsWith(':KUBE-'))
    .filter(line => !line.startsWith('#'))
    .join('\n')
    .replaceAll(/\[\d+:\d+\]/g, '')

for (const backend of backends) {
  t.test(
    `${backend}: changes one by one come to what a first sync writes`,
    { skip },
    async t => {
      const world = await makeWorld({ backend })
      await world.restore(foreign)
      const tables = ['mangle', 'filter', 'nat']
      const allSaved = () => Promise.all(tables.map(table => world.save(table)))
      const before = await allSaved()
      const less = service('web', 1, ['10.1.0.2', '10.1.0.7'])
      const steps: readonly (readonly ServicePort[])[] = [
        [web, db],
        [web, db, none, all],
        [less, db, service('none', 3, ['10.1.0.8']), all],
        [less, none, all],
        [web, db, none, all],
      ]
      const works: string[] = []
      for (const step of steps) {
        works.push((await world.proxier.sync(snapshotOf(step), settings)).work)
        t.same(linesOf(await allSaved(), foreign), firstSync(step))
      }
      t.same(works, ['full', 'partial', 'partial', 'partial', 'partial'])
      // Another process, which knows nothing of what is there.
      const next = world.another()
      t.same(linesOf(await allSaved(), foreign), firstSync([web, db, none, all]))
      await next.sync(snapshotOf([web]), settings)
      const after = await allSaved()
      t.same(linesOf(after, foreign), firstSync([web]))
      t.same(after.map(withoutKube), before.map(withoutKube), 'others stay as they are')
      t.same(world.told, [])
    },
  )

  t.test(
    `${backend}: in long chains only the lines that change are written`,
    { skip },
    async t => {
      const world = await makeWorld({ backend })
      const saved = async () => [await world.save('filter'), await world.save('nat')]
      await world.proxier.sync(snapshotOf(crowd), settings)
      for (const step of changedOf(crowd)) {
        const { work, rules } = await world.proxier.sync(snapshotOf(step), settings)
        t.equal(work, 'partial')
        t.ok(rules && rules.nat.written < 20 && rules.filter.written < 4)
        t.notMatch(world.written.at(-1), /^:KUBE-(?:SERVICES|NODEPORTS|EXTERNAL|PROXY)/m)
        const texts = await saved()
        t.same(linesOf(texts), firstSync(step))
        const portals = texts[1]?.match(/^-A KUBE-SERVICES .*$/gm) ?? []
        t.match(portals.at(-1), /-j KUBE-NODEPORTS$/, 'the last rule is the last')
      }
      t.same(world.told, [])
    },
  )

  t.test(`${backend}: a chain that others lead to is emptied only`, { skip }, async t => {
    const world = await makeWorld({ backend })
    const stale = endpointChainName('default/gone', 'tcp', '10.1.0.9:80')
    await world.restore(
      `*nat\n:${stale} - [0:0]\n-A ${stale} -j RETURN\n-A PREROUTING -p udp -j ${stale}\nCOMMIT\n`,
    )
    await world.proxier.sync(snapshotOf([web]), settings)
    const saved = await world.save('nat')
    t.match(saved, `-A PREROUTING -p udp -j ${stale}`)
    t.notMatch(saved, `-A ${stale} `)
  })

  t.test(
    `${backend}: what a partial sync can't do, the full one after it does`,
    { skip },
    async t => {
      const world = await makeWorld({ backend })
      await world.proxier.sync(snapshotOf([web, db]), settings)
      const { cluster } = serviceChainNames('default/db', 'tcp')
      await world.restore(`*nat\n-A OUTPUT -p udp -j ${cluster}\nCOMMIT\n`)
      await t.rejects(world.proxier.sync(snapshotOf([web]), settings), {
        name: 'ToolError',
      })
      t.same(world.told, ['IPv4 partial'])
      t.equal((await world.proxier.sync(snapshotOf([web]), settings)).work, 'full')
      const nat = await world.save('nat')
      t.match(nat, `-A OUTPUT -p udp -j ${cluster}`)
      t.notMatch(nat, `-A ${cluster} `)
      t.equal((await world.proxier.sync(snapshotOf([web, db]), settings)).work, 'partial')
      t.match(await world.save('nat'), `-A ${cluster} `)
    },
  )

  t.test(`${backend}: after a restore that failed all is written`, { skip }, async t => {
    const world = await makeWorld({ backend })
    await world.proxier.sync(snapshotOf([web]), settings)
    const before = rulesOf(await world.save('nat'))
    const bad = service('bad', 9, ['10.1.0.300'])
    const sync = world.proxier.sync(snapshotOf([bad, web]), settings)
    await t.rejects(sync, /\n> \d+: -A KUBE-SEP-\w{16} .*10\.1\.0\.300/)
    t.same(world.told, ['IPv4 partial'])
    t.same(rulesOf(await world.save('nat')), before)
    const { work } = await world.proxier.sync(snapshotOf([web, db]), settings)
    t.equal(work, 'full')
    const saved = [await world.save('filter'), await world.save('nat')]
    t.same(linesOf(saved), firstSync([web, db]))
  })
}

t.test('no tool runs when nothing has changed', { skip }, async t => {
  let calls = 0
  const world = await makeWorld({
    around:
      run =>
      (...call) => {
        calls++
        return run(...call)
      },
  })
  const first = await world.proxier.sync(snapshotOf([web, none]), settings)
  t.same(first.rules, {
    filter: { total: 5, written: 5 },
    nat: { total: 13, written: 13 },
  })
  calls = 0
  const { work, rules } = await world.proxier.sync(snapshotOf([web, none]), settings)
  t.equal(work, 'nothing')
  t.equal(calls, 0)
  t.same(rules, { filter: { total: 5, written: 0 }, nat: { total: 13, written: 0 } })
})

t.test('chains and jumps of the layout of 1.16 go', { skip }, async t => {
  const world = await makeWorld()
  await world.restore(layoutOf116)
  await world.proxier.sync(snapshotOf([web]), settings)
  const saved = [await world.save('filter'), await world.save('nat')]
  t.same(linesOf(saved), firstSync([web]))
})

t.test("KUBE-MARK-DROP stays when it is the kubelet's", { skip }, async t => {
  const world = await makeWorld()
  await world.restore(
    '*nat\n:KUBE-MARK-DROP - [0:0]\n-A KUBE-MARK-DROP -j MARK --or-mark 0x8000\nCOMMIT\n',
  )
  await world.proxier.sync(snapshotOf([]), settings)
  t.match(await world.save('nat'), /-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000\/0x8000/)
})

t.test("the kubelet's chain is added to, never emptied", { skip }, async t => {
  const world = await makeWorld()
  const mark = '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP'
  await world.restore(
    `*filter\n:KUBE-FIREWALL - [0:0]\n${mark}\n-A INPUT -j KUBE-FIREWALL\nCOMMIT\n`,
  )
  for (const proxier of [world.proxier, world.another()])
    await proxier.sync(snapshotOf([]), settings)
  const saved = (await world.save('filter')).split('\n')
  const its = saved.filter(line => line.startsWith('-A KUBE-FIREWALL'))
  t.equal(its.length, 2)
  t.equal(its[0], mark)
  t.match(its[1], /block incoming localnet connections/)
  const jumps = saved.filter(line => line.endsWith(' -j KUBE-FIREWALL'))
  t.same(jumps, ['-A INPUT -j KUBE-FIREWALL', '-A OUTPUT -j KUBE-FIREWALL'])
})

t.test('other settings write all anew', { skip }, async t => {
  const world = await makeWorld()
  const without = { ...settings, localhostNodePorts: false }
  await world.proxier.sync(snapshotOf([web]), without)
  t.notMatch(await world.save('filter'), /KUBE-FIREWALL/, 'which is none of ours')
  const other = { ...settings, masqueradeBit: 15 }
  const { work } = await world.proxier.sync(snapshotOf([web]), other)
  t.equal(work, 'full')
  t.match(await world.save('nat'), /KUBE-MARK-MASQ -j MARK --set-xmark 0x8000\/0x8000/)
})

t.test('what was forgotten is written anew', { skip }, async t => {
  const world = await makeWorld()
  await world.proxier.sync(snapshotOf([web]), settings)
  await world.restore('*nat\n-F\n-X\nCOMMIT\n')
  world.proxier.forget()
  t.equal((await world.proxier.sync(snapshotOf([web]), settings)).work, 'full')
  t.same(linesOf([await world.save('filter'), await world.save('nat')]), firstSync([web]))
})

for (const backend of backends) {
  t.test(
    `${backend}: what was forgotten is written anew without reading 100 000 rules`,
    { skip },
    async t => {
      const tools: string[] = []
      const around =
        (run: RunTool): RunTool =>
        (command, ...rest) => {
          tools.push(command)
          return run(command, ...rest)
        }
      const world = await makeWorld({ backend, around })
      // From 1,000 endpoints on; of fewer all is read by one process.
      const ips = Array.from({ length: 1001 }, (_, i) => `10.2.${i >> 8}.${i & 255}`)
      const large = service('large', 9, ips)
      await world.proxier.sync(snapshotOf([web, large]), settings)
      await world.restore('*nat\n-F KUBE-SERVICES\n-F PREROUTING\nCOMMIT\n')
      world.proxier.forget()
      tools.length = 0
      await world.proxier.sync(snapshotOf([web]), settings)
      t.same(
        tools.filter(tool => tool.endsWith('-save')),
        [],
      )
      const saved = [await world.save('filter'), await world.save('nat')]
      t.same(linesOf(saved), firstSync([web]), 'chains of a Service that went go too')
    },
  )
}

t.test('the plan of a cleanup takes out all that a sync writes', { skip }, async t => {
  const world = await makeWorld()
  await world.restore(foreign)
  await world.proxier.sync(snapshotOf([web, none, all]), settings)
  const tables = await savedTables(await world.run('iptables-nft-save', []))
  for (const each of tables) {
    await takeOut(world as unknown as Backend, each.name, planTable(each, tables))
  }
  const left = await world.run('iptables-nft-save', [])
  t.equal(left.match(/^:KUBE-.*$|-j KUBE-\S+$/gm), null)
  t.match(left, '-j OTHER-CHAIN')
})

t.test('IPv6 has the same chains', { skip }, async t => {
  const world = await makeWorld({ family: 'IPv6' })
  const six = service('six', 1, ['2001:db8::1', '2001:db8::2'], {
    family: 'IPv6',
    name: ['n', 's', 'p'].map(letter => letter.repeat(63)).join('/'),
    vips: [clusterIp('2001:db8:1::1'), nodePort('::')],
  })
  const local = { by: 'source' as const, cidrs: ['fd00::/64', 'fd01::/64'] }
  const other = { ...settings, localDetector: local, nodeAddresses: [] }
  const snapshot = { ...snapshotOf([six]), family: 'IPv6' as const }
  await world.proxier.sync(snapshot, other)
  const nat = await world.save('nat')
  t.match(nat, /-j DNAT --to-destination \[2001:db8::1\]:8080/)
  t.match(
    nat,
    /! -s fd00::\/64 .*-m iprange ! --src-range fd01::-fd01::ffff:ffff:ffff:ffff/,
  )
  t.match(nat, /! -d ::1\/128 .*--dst-type LOCAL -j KUBE-NODEPORTS/)
  t.notMatch(await world.save('filter'), /KUBE-FIREWALL/)
  await world.proxier.sync({ ...snapshot, servicePorts: new Map() }, other)
  t.notMatch(await world.save('nat'), /KUBE-SVC-/)
})

t.test(
  'what was written by the other back end goes after the first sync',
  { skip },
  async t => {
    const world = await makeWorld({ backend: 'nft', hasBoth: true })
    const legacy = (args: readonly string[], input = '') =>
      world.run(`iptables-legacy-${args[0] ?? ''}`, args.slice(1), { input })
    const held = 'KUBE-SEP-AAAAAAAAAAAAAAAA'
    await legacy(
      ['restore', '--noflush'],
      `${foreign}*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:${held} - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OTHER-CHAIN -j ${held}
-A KUBE-SERVICES -d 10.96.0.9/32 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j ${held}
COMMIT
`,
    )
    await world.proxier.sync(snapshotOf([web]), settings)
    const saved = await legacy(['save', '-t', 'nat'])
    t.same(
      saved.split('\n').filter(line => line.startsWith('-A')),
      [
        '-A PREROUTING -p tcp -m tcp --dport 8000 -j OTHER-CHAIN',
        '-A OTHER-CHAIN -p tcp -j DNAT --to-destination 192.0.2.9:1',
        `-A OTHER-CHAIN -j ${held}`,
      ],
    )
    t.match(await world.save('nat'), 'KUBE-SERVICES')
    t.same(world.told, [])
  },
)

const layoutOf116 = `*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -s 10.0.0.0/8 -m comment --comment "kubernetes forwarding conntrack pod source rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-XLB-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-FW-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES -d 192.0.2.1/32 -p tcp -m tcp --dport 80 -j KUBE-FW-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-FW-AAAAAAAAAAAAAAAA -j KUBE-XLB-AAAAAAAAAAAAAAAA
-A KUBE-FW-AAAAAAAAAAAAAAAA -j KUBE-MARK-DROP
-A KUBE-XLB-AAAAAAAAAAAAAAAA -s 10.0.0.0/8 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-XLB-AAAAAAAAAAAAAAAA -j KUBE-MARK-DROP
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.1.0.9:80
-A KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
COMMIT
`
