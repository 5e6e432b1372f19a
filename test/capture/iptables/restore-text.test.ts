import { readFile } from 'node:fs/promises'
import t from 'tap'
import { array, assert, constantFrom, property, string } from 'fast-check'
import { entriesOf, Layout, PrefixTree } from '../../../src/capture/iptables/layout.ts'
import { changeText, replaceText } from '../../../src/capture/iptables/iptables.ts'
import { captureOwner } from '../../../src/kernel/xtables/kube-chains.ts'
import { takeOutAll } from '../../../src/kernel/xtables/restore-text.ts'
import { readTable, type SavedTable } from '../../../src/kernel/xtables/saved.ts'
import type { VipRule } from '../../../src/capture/iptables/vip-rule.ts'
import { manyRules, ruleOf, settingsOf } from './rules.ts'

const readNat = (text: string): Promise<SavedTable> =>
  readTable(text, 'nat', captureOwner)

const nothing = {
  builtIn: new Set<string>(),
  chains: new Map<string, number>(),
  rules: [],
}
const empty = {
  filter: { name: 'filter', ...nothing },
  nat: { name: 'nat', ...nothing },
}

const oneOfEach: readonly VipRule[] = [
  ruleOf(),
  ruleOf({ protocol: 'UDP', port: 53, toPort: 3001 }),
  ruleOf({ address: '10.96.0.2', outside: 'reject', fromNode: 'reject' }),
  ruleOf({ kind: 'ExternalIP', address: '198.51.100.7', outside: 'drop', toPort: 3002 }),
  ruleOf({
    kind: 'LoadBalancerIP',
    address: '203.0.113.9',
    allowedClients: ['192.0.2.0/24', '10.0.0.0/8'],
    toPort: 3003,
  }),
  ruleOf({
    kind: 'ExternalIP',
    address: '198.51.100.8',
    outside: 'reject',
    fromNode: 'reject',
  }),
  ruleOf({ kind: 'NodePort', port: 30_080, toPort: 3004 }),
  ruleOf({ kind: 'NodePort', port: 30_081, outside: 'reject', fromNode: 'reject' }),
]

t.test('all rules, as text for iptables-restore', async t => {
  const settings = settingsOf('IPv4', {
    nodePortCidrs: ['192.0.2.0/24'],
    healthCheckPorts: [32_000],
  })
  const layout = await Layout.of(oneOfEach, settings, 'IPv4')
  const golden = new URL('./golden/replace.txt', import.meta.url)
  t.equal(await replaceText(layout.lineRefs, empty), await readFile(golden, 'utf8'))
})

t.test(
  'where only clients elsewhere have no endpoint they are refused, not dropped',
  t => {
    for (const where of [
      { kind: 'ExternalIP', address: '198.51.100.8' },
      { kind: 'NodePort', port: 30_081 },
    ] as const) {
      const entries = entriesOf(
        ruleOf({ ...where, outside: 'reject', fromNode: 'forward' }),
      )
      const lines = entries.map(({ line }) => line).join('\n')
      t.match(lines, /-j DNAT .*\n.* -j KUBE-USHER-REJECT$/)
      t.notMatch(lines, /DROP/)
    }
    t.end()
  },
)

t.test('a VIP is found by few comparisons, however many there are', async t => {
  const layout = await Layout.of(manyRules(3000), settingsOf('IPv4'), 'IPv4')
  const sizes = (['nat', 'filter'] as const).flatMap(table =>
    [...layout.lineRefs.chains(table)].map(
      chain => layout.lineRefs.size(table, chain) ?? 0,
    ),
  )
  // 64 rules, and jumps for the digits from 0 to f.
  t.ok(Math.max(...sizes) <= 64 + 16)
})

t.test('a packet comes to the chain of its rule, and to no other', t => {
  const key = string({
    unit: constantFrom('0', '1', 'f'),
    minLength: 6,
    maxLength: 6,
  })
  const keys = array(key, { maxLength: 400 })
  assert(
    property(keys, keys, (planned, later) => {
      const tree = new PrefixTree()
      for (const one of new Set(planned)) tree.insert(one)
      const { root, parts, chainOf } = tree.plan('root', String)
      for (const one of [...planned, ...later]) {
        const reached = [root]
        for (let chain = root; ;) {
          const next = parts.filter(
            ({ from, prefix }) => from === chain && one.startsWith(prefix),
          )
          if (next.length > 1) return false
          if (next[0] === undefined) break
          chain = next[0].chain
          reached.push(chain)
        }
        if (!reached.includes(chainOf(one))) return false
      }
      return true
    }),
  )
  t.end()
})

t.test('rules of one address for thousands of ports are spread too', t => {
  const tree = new PrefixTree()
  const keys = Array.from(
    { length: 4096 },
    (_, i) => `0a600001t${i.toString(16).padStart(4, '0')}`,
  )
  for (const key of keys) tree.insert(key)
  const { chainOf } = tree.plan('root', String)
  const sizes = new Map<string, number>()
  for (const key of keys) sizes.set(chainOf(key), (sizes.get(chainOf(key)) ?? 0) + 1)
  t.ok(Math.max(...sizes.values()) <= 64)
  t.end()
})

t.test('a change is told by its own lines only', async t => {
  const web = ruleOf()
  const layout = await Layout.of(oneOfEach, settingsOf('IPv4'), 'IPv4')
  const text = async (gone: readonly VipRule[], come: readonly VipRule[]) =>
    (await changeText(await layout.change(gone, come))).split('\n').filter(Boolean)
  const line =
    '-d 10.96.0.1/32 -p tcp -m comment --comment "default/web:http" -m tcp --dport 80'
  const dnat = (port: number) => `${line} -j DNAT --to-destination 169.254.77.88:${port}`
  const moved = ruleOf({ toPort: 4000 })
  t.same(await text([web], [web]), [], 'nothing for what stays as it is')
  t.same(await text([web], [moved]), [
    '*nat',
    `-D KUBE-USHER-PORTALS ${dnat(3000)}`,
    `-A KUBE-USHER-PORTALS ${dnat(4000)}`,
    'COMMIT',
  ])
  t.same(
    await text([moved], []),
    ['*nat', `-D KUBE-USHER-PORTALS ${dnat(4000)}`, 'COMMIT'],
    'another port of that ClusterIP is there still, so that unknown ones are refused',
  )
  const udp = ruleOf({ protocol: 'UDP', port: 53, toPort: 3001 })
  t.match((await text([udp], [])).at(-2), /^-D KUBE-USHER-REFUSED -d 10.96.0.1\/32 /)
})

t.test('what keeps clients out comes before the way in, and goes after it', async t => {
  const layout = await Layout.of([], settingsOf('IPv4'), 'IPv4')
  const rule = (number: number) =>
    ruleOf({
      kind: 'LoadBalancerIP',
      address: `203.0.113.${number}`,
      toPort: 3000 + number,
      allowedClients: ['192.0.2.0/24'],
    })
  const shape = async (gone: readonly VipRule[], come: readonly VipRule[]) =>
    (await changeText(await layout.change(gone, come)))
      .split('\n')
      .map(line => /^(?:\*|-[ADX] KUBE-USHER-[A-Z]+|:)/.exec(line)?.[0])
      .filter(Boolean)
      .map(text => text?.replace('KUBE-USHER-', ''))
  const [first, last] = [await shape([], [rule(1)]), await shape([], [rule(2)])]
  t.same(first, ['*', ':', '-A S', '-A S', '-A NEW', '*', '-A PORTALS'])
  t.same(last, ['*', '-A NEW', '*', '-A PORTALS'], 'the same ranges share a chain')
  t.same(await shape([rule(1)], []), ['*', '-D PORTALS', '*', '-D NEW'])
  t.same(await shape([rule(2)], []), ['*', '-D PORTALS', '*', '-D NEW', ':', '-X S'])
})

t.test(
  'chains of an earlier process that are not needed go in the same step',
  async t => {
    const layout = await Layout.of([], settingsOf('IPv4'), 'IPv4')
    const nat = await readNat(
      ':KUBE-USHER-P7 - [0:0]\n:MINE - [0:0]\n-A MINE -j RETURN\n',
    )
    const text = await replaceText(layout.lineRefs, { ...empty, nat })
    t.match(text, /:KUBE-USHER-P7 - \[0:0\]\n[^*]*-X KUBE-USHER-P7\nCOMMIT\n$/)
    t.notMatch(text, 'MINE')
  },
)

t.test(
  'jumps of the right kind and order are left alone, others are put right',
  async t => {
    const layout = await Layout.of([], settingsOf('IPv4'), 'IPv4')
    const jumpsIn = async (nat: string) =>
      (await replaceText(layout.lineRefs, { ...empty, nat: await readNat(nat) }))
        .split('*nat')[1]
        ?.split('\n')
        .filter(line => / (?:PREROUTING|OUTPUT) /.test(line))
        .map(line => line.replace(/-m .*(?=-j)/, ''))
    const made = await replaceText(layout.lineRefs, empty)
    const installed =
      made
        .split('*nat')[1]
        ?.split('\n')
        .filter(line => / (?:PREROUTING|OUTPUT) /.test(line))
        .map(line => line.replace(/^-I/, '-A')) ?? []
    t.equal(installed.length, 4)
    t.same(await jumpsIn(installed.join('\n')), [])
    t.same(await jumpsIn(installed.toReversed().join('\n')), [
      '-D OUTPUT -j KUBE-PORTALS-HOST',
      '-D PREROUTING -j KUBE-PORTALS-CONTAINER',
      '-I PREROUTING -j KUBE-PORTALS-CONTAINER',
      '-I OUTPUT -j KUBE-PORTALS-HOST',
    ])
    t.same(await jumpsIn([...installed, installed[3]].join('\n')), [
      '-D OUTPUT -j KUBE-NODEPORT-HOST',
    ])
  },
)

t.test('names are one word, whatever they were', async t => {
  const layout = await Layout.of([ruleOf({ name: 'a"\n-F' })], settingsOf('IPv4'), 'IPv4')
  t.match(await replaceText(layout.lineRefs, empty), '--comment "a__-F"')
})

t.test('there is nothing to take out where nothing is', async t => {
  const nat = await readNat(
    '*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j MINE\nCOMMIT\n',
  )
  const untouched = { restore: () => t.fail('nothing is there to be taken out') }
  t.same(await takeOutAll(untouched as never, nat, captureOwner), [])
})
