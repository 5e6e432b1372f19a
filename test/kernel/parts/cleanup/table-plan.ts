import t from 'tap'
import { parseSaved } from '../../../../src/kernel/cleanup/saved-rules.ts'
import { planTable, restoreInput } from '../../../../src/kernel/cleanup/table-plan.ts'

const plan = (name: string, chains: readonly string[], rules: readonly string[]) => {
  const lines = [
    `*${name}`,
    ':INPUT ACCEPT [5:300]',
    ...chains.map(chain => `:${chain} - [0:0]`),
    ...rules,
    'COMMIT',
  ]
  const [table] = parseSaved(lines.join('\n')).tables
  if (table === undefined) throw new Error('no table')
  return planTable(table)
}

const own = [
  ['nat', 'KUBE-SERVICES'],
  ['filter', 'KUBE-SERVICES'],
  ['nat', 'KUBE-FIREWALL'],
  ['nat', 'KUBE-SVC-IPSETS'],
  ['nat', 'KUBE-XLB-ABCDEFGHIJKLMN23'],
  ['filter', 'KUBE-USHER-SIDE-DOOR'],
  ['mangle', 'KUBE-PROXY-CANARY'],
] as const

const foreign = [
  ['filter', 'KUBE-FIREWALL'],
  ['mangle', 'KUBE-IPTABLES-HINT'],
  ['nat', 'KUBE-KUBELET-CANARY'],
  ['nat', 'KUBE-HOSTPORTS'],
  ['nat', 'KUBE-HP-ABCDEFGHIJKLMN23'],
  ['nat', 'KUBE-SVC-ABCDEFGHIJKLMN2'],
  ['nat', 'KUBE-SVC-ABCDEFGHIJKLMN01'],
  ['filter', 'KUBE-ROUTER-INPUT'],
  ['filter', 'KUBE-POD-FW-ABCDEFGHIJKLMN23'],
  ['nat', 'XKUBE-SERVICES'],
  ['nat', 'kube-services'],
] as const

t.test('chains are known by their whole names', async t => {
  for (const [table, chain] of own)
    t.strictSame(plan(table, [chain], []).chains, [chain], `${table} ${chain}`)
  for (const [table, chain] of foreign)
    t.strictSame(plan(table, [chain], []).chains, [], `${table} ${chain}`)
})

t.test('a jump is theirs by its comment, or when it says nothing else', async t => {
  const jump = (rule: string) => {
    const { rules, held } = plan('filter', ['KUBE-SERVICES', 'MINE'], [`-A ${rule}`])
    return { rules: rules.length, held: held.length }
  }
  const theirs = { rules: 1, held: 0 }
  const others = { rules: 0, held: 1 }
  t.strictSame(jump('INPUT -j KUBE-SERVICES'), theirs)
  t.strictSame(
    jump('INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'),
    theirs,
  )
  t.strictSame(jump('INPUT -s 192.0.2.1/32 -j KUBE-SERVICES'), others)
  t.strictSame(jump('INPUT -m comment --comment mine -j KUBE-SERVICES'), others)
  t.strictSame(jump('MINE -j KUBE-SERVICES'), others)
  t.strictSame(jump('MINE -p tcp -g KUBE-SERVICES'), others)
  t.strictSame(jump('INPUT -m comment --comment "x -j KUBE-SERVICES" -j MINE'), {
    rules: 0,
    held: 0,
  })
})

t.test('a chain that is held keeps all that it leads to, in a ring too', async t => {
  const svc = 'KUBE-SVC-ABCDEFGHIJKLMN23'
  const sep = 'KUBE-SEP-ABCDEFGHIJKLMN23'
  const { chains, held } = plan(
    'nat',
    ['KUBE-SERVICES', 'KUBE-NODEPORTS', svc, sep, 'MINE'],
    [
      '-A MINE -j KUBE-NODEPORTS',
      `-A KUBE-NODEPORTS -p tcp -j ${svc}`,
      `-A ${svc} -j ${sep}`,
      `-A ${sep} -j ${svc}`,
      `-A KUBE-SERVICES -j ${svc}`,
    ],
  )
  t.strictSame(chains, ['KUBE-SERVICES'])
  t.match(held, [{ chain: 'KUBE-NODEPORTS', others: 2, by: { chain: 'MINE' } }])
})

t.test('KUBE-MARK-DROP goes only when no kubelet wrote a rule into it', async t => {
  const shared = ['KUBE-MARK-DROP', 'KUBE-MARK-MASQ', 'KUBE-POSTROUTING']
  t.strictSame(plan('nat', shared, []).chains.toSorted(), shared)
  const rule = '-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000'
  t.strictSame(plan('nat', shared, [rule]).chains, [])
})

t.test('a table is changed by one restore, jumps before chains', async t => {
  const jump = 'INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
  const rules = [`-A ${jump}`, '-A INPUT -p tcp -j ACCEPT', '-A KUBE-SERVICES -j RETURN']
  t.equal(
    restoreInput(plan('filter', ['KUBE-SERVICES', 'MINE'], rules)),
    `*filter\n:KUBE-SERVICES - [0:0]\n-D ${jump}\n-X KUBE-SERVICES\nCOMMIT\n`,
  )
})
