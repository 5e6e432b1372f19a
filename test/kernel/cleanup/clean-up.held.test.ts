import t from 'tap'
import { makeNetns, type Netns } from '../../support/netns.ts'
import { addForeign } from './foreign.ts'
import {
  createSets,
  families,
  iptablesMode,
  ipvsMode,
  leaveAll,
  table,
} from './left-behind.ts'
import { options } from './options.ts'
import { usherIn } from '../../support/usher-in.ts'

const restore = (ns: Netns, input: string): Promise<string> =>
  ns.run('iptables-nft-restore', ['--noflush'], { input })

const kubeChains = (saved: string): readonly string[] =>
  [...saved.matchAll(/^:(KUBE-\S+)/gm)].map(([, chain = '']) => chain).toSorted()

t.test(
  'a chain that a rule of others leads to stays, and that is told',
  options,
  async t => {
    const ns = await makeNetns('cl')
    const sep = 'KUBE-SVC-ABCDEFGHIJKLMN23'
    await restore(ns, iptablesMode(families.iptables))
    await restore(
      ns,
      table(
        'nat',
        ['CNI-DN-1'],
        [
          '-A CNI-DN-1 -s 10.1.0.0/16 -j KUBE-MARK-MASQ',
          `-A OUTPUT -d 203.0.113.9/32 -m comment --comment "my own" -j ${sep}`,
        ],
      ),
    )
    const { code, out, err } = await usherIn(ns, ['cleanup'])
    t.equal(code, 1)
    t.match(
      err,
      'usher cleanup: iptables-nft -t nat: chain KUBE-MARK-MASQ stays: a rule of another program leads to it: -A CNI-DN-1 -s 10.1.0.0/16 -j KUBE-MARK-MASQ\n',
    )
    t.match(err, `chain ${sep} (and 2 more that it leads to) stays: `)
    t.match(out, 'removed iptables-nft -t nat: chain KUBE-POSTROUTING\n')
    const nat = await ns.run('iptables-nft-save', ['-t', 'nat'])
    const chains = kubeChains(nat)
    t.strictSame(chains, ['KUBE-MARK-MASQ', 'KUBE-SEP-ABCDEFGHIJKLMN23', sep])
    t.match(nat, `-A OUTPUT -d 203.0.113.9/32 -m comment --comment "my own" -j ${sep}\n`)
    t.match(nat, '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n')
    t.notMatch(nat, '-j KUBE-SERVICES')

    await ns.run('iptables-nft', ['-t', 'nat', '-F', 'CNI-DN-1'])
    await ns.run('iptables-nft', ['-t', 'nat', '-F', 'OUTPUT'])
    t.equal((await usherIn(ns, ['cleanup'])).code, 0, 'it goes as soon as nobody uses it')
  },
)

t.test(
  'what kubelets up to 1.27 have in common with kube-proxy stays',
  options,
  async t => {
    const ns = await makeNetns('cl')
    await ns.run('ipset', ['restore'], { input: createSets('iptables') })
    await restore(ns, iptablesMode(families.iptables))
    await restore(ns, ipvsMode('iptables'))
    await restore(
      ns,
      table('nat', [], ['-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000']),
    )
    const { code, out, err } = await usherIn(ns, ['cleanup'])
    t.strictSame({ code, err }, { code: 0, err: '' })
    t.match(out, 'removed iptables-nft -t nat: rule -A KUBE-POSTROUTING -m set')
    t.equal(await ns.run('ipset', ['list', '-n']), '', 'no rule holds a set')
    const nat = await ns.run('iptables-nft-save', ['-t', 'nat'])
    const chains = kubeChains(nat)
    t.strictSame(chains, ['KUBE-MARK-DROP', 'KUBE-MARK-MASQ', 'KUBE-POSTROUTING'])
    t.match(nat, '-j KUBE-POSTROUTING\n')
  },
)

t.test('a set that a rule of others asks stays, the others go', options, async t => {
  const ns = await makeNetns('cl')
  await ns.run('ipset', ['restore'], { input: createSets('iptables') })
  const rule = '-A INPUT -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT'
  await restore(ns, table('filter', [], [rule]))
  const { code, out, err } = await usherIn(ns, ['cleanup'])
  t.equal(code, 1)
  t.match(err, /^usher cleanup: ipset KUBE-CLUSTER-IP stays: ipset destroy .*in use.*\n$/)
  t.match(out, 'removed ipset KUBE-LOOP-BACK\n')
  t.equal(await ns.run('ipset', ['list', '-n']), 'KUBE-CLUSTER-IP\n')
  t.match(await ns.run('iptables-nft-save', ['-t', 'filter']), `${rule}\n`)
})

t.test('a verdict of nft’s holds a chain, which leads nowhere then', options, async t => {
  const ns = await makeNetns('cl')
  await restore(ns, iptablesMode(families.iptables))
  const verdict = 'tcp dport vmap { 80 : jump KUBE-SERVICES }'
  await ns.run('nft', [`add rule ip nat OUTPUT ${verdict}`])
  const { code, out, err } = await usherIn(ns, ['cleanup'])
  t.equal(code, 1)
  t.match(
    err,
    /-t nat: chain KUBE-SERVICES stays: it was emptied, but a rule that iptables/,
  )
  t.match(out, 'removed iptables-nft -t filter: chain KUBE-SERVICES\n')
  const left = await ns.run('nft', ['list', 'table', 'ip', 'nat'])
  t.match(left, verdict)
  t.strictSame(left.match(/KUBE-\S+/g), ['KUBE-SERVICES', 'KUBE-SERVICES'])
})

/** As VPNs, firewalls and administrators put them into tables of iptables-nft. */
const natives = (family: 'ip' | 'ip6'): readonly string[] => [
  `insert rule ${family} filter INPUT ct state established accept`,
  `add rule ${family} filter FORWARD log prefix "x"`,
  `add rule ${family} nat OUTPUT fib daddr type local counter`,
  `insert rule ${family} nat POSTROUTING meta mark set 0x00000001`,
  `add rule ${family} mangle PREROUTING ct state established accept`,
]

for (const where of ['nat', 'raw', 'all'])
  t.test(`rules that iptables can not read: ${where}`, options, async t => {
    const ns = await makeNetns('cl')
    await addForeign(ns)
    const rules = (['ip', 'ip6'] as const).flatMap(natives)
    const mixed = rules.filter(each => where === 'all' || each.includes(` ${where} `))
    if (where === 'raw') {
      await ns.run('iptables-nft', ['-t', 'raw', '-A', 'OUTPUT', '-j', 'ACCEPT'])
      mixed.push('insert rule ip raw OUTPUT meta mark set 1')
    }
    const mix = () => ns.run('nft', ['-f', '-'], { input: mixed.join('\n') })
    const rulesNow = () => ns.run('nft', ['-a', '-s', 'list', 'ruleset'])
    await mix()
    const before = await rulesNow()
    await leaveAll(ns)
    const { code, err } = await usherIn(ns, ['cleanup'])
    t.strictSame({ code, err }, { code: 0, err: '' })
    t.equal(await rulesNow(), before)
    t.match(await usherIn(ns, ['cleanup']), { out: 'nothing to clean up\n', code: 0 })
    await leaveAll(ns)
    await mix()
    t.strictSame((await usherIn(ns, ['cleanup'])).err, '', 'also where they come later')
    const left = (await rulesNow()).split('\n').length
    t.equal(left - before.split('\n').length, mixed.length)
  })
