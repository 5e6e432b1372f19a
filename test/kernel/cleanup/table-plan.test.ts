import t from 'tap'
import { isCaptureChain } from '../../../src/kernel/xtables/kube-chains.ts'
import type { Backend } from '../../../src/kernel/xtables/backend.ts'
import { takeOut } from '../../../src/kernel/xtables/restore-text.ts'
import { savedTables } from './saved-tables.ts'
import { planTable } from '../../../src/kernel/cleanup/iptables.ts'

type Keeps = (table: string, chain: string) => boolean

const plan = async (
  name: string,
  chains: readonly string[],
  rules: readonly string[],
  {
    more = [],
    keeps,
  }: { readonly more?: readonly string[]; readonly keeps?: Keeps } = {},
) => {
  const lines = [
    `*${name}`,
    ':INPUT ACCEPT [5:300]',
    ...chains.map(chain => `:${chain} - [0:0]`),
    ...rules,
    'COMMIT',
    ...more,
  ]
  const tables = await savedTables(lines.join('\n'))
  const [table] = tables
  if (table === undefined) throw new Error('no table')
  return planTable(table, tables, keeps)
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
    t.strictSame((await plan(table, [chain], [])).chains, [chain], `${table} ${chain}`)
  for (const [table, chain] of foreign)
    t.strictSame((await plan(table, [chain], [])).chains, [], `${table} ${chain}`)
})

t.test('a jump is theirs by its comment, or when it says nothing else', async t => {
  const jump = async (rule: string) => {
    const { rules, held } = await plan(
      'filter',
      ['KUBE-SERVICES', 'MINE'],
      [`-A ${rule}`],
    )
    return { rules: rules.length, held: held.length }
  }
  const theirs = { rules: 1, held: 0 }
  const others = { rules: 0, held: 1 }
  t.strictSame(await jump('INPUT -j KUBE-SERVICES'), theirs)
  t.strictSame(
    await jump(
      'INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    ),
    theirs,
  )
  t.strictSame(await jump('INPUT -s 192.0.2.1/32 -j KUBE-SERVICES'), others)
  t.strictSame(await jump('INPUT -m comment --comment mine -j KUBE-SERVICES'), others)
  t.strictSame(await jump('MINE -j KUBE-SERVICES'), others)
  t.strictSame(await jump('MINE -p tcp -g KUBE-SERVICES'), others)
  t.strictSame(await jump('INPUT -m comment --comment "x -j KUBE-SERVICES" -j MINE'), {
    rules: 0,
    held: 0,
  })
})

t.test('a chain that is held keeps all that it leads to, in a ring too', async t => {
  const svc = 'KUBE-SVC-ABCDEFGHIJKLMN23'
  const sep = 'KUBE-SEP-ABCDEFGHIJKLMN23'
  const { chains, held } = await plan(
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
  t.strictSame((await plan('nat', shared, [])).chains.toSorted(), shared)
  const rule = '-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000'
  t.strictSame((await plan('nat', shared, [rule])).chains, [])
})

t.test('a table is changed by one restore, jumps before chains', async t => {
  const jump = 'INPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
  const rules = [`-A ${jump}`, '-A INPUT -p tcp -j ACCEPT', '-A KUBE-SERVICES -j RETURN']
  const planned = await plan('filter', ['KUBE-SERVICES', 'MINE'], rules)
  let written = ''
  const backend = { restore: async (text: string) => (written += text) }
  t.strictSame(await takeOut(backend as Backend, planned.table, planned), [])
  t.equal(
    written,
    `*filter\n:KUBE-SERVICES - [0:0]\n-D ${jump}\n-X KUBE-SERVICES\nCOMMIT\n`,
  )
})

t.test(
  'what runs keeps its chains, with the jumps to them and what they hold',
  async t => {
    const chains = ['KUBE-SERVICES', 'KUBE-SVC-ABCDEFGHIJKLMN23', 'KUBE-USHER-VIPS']
    const rules = [
      '-A INPUT -j KUBE-SERVICES',
      '-A INPUT -j KUBE-USHER-VIPS',
      '-A KUBE-SERVICES -j KUBE-SVC-ABCDEFGHIJKLMN23',
    ]
    const captures: Keeps = (_table, chain) => isCaptureChain(chain)
    const byCapture = await plan('nat', chains, rules, { keeps: captures })
    t.strictSame(byCapture.chains, ['KUBE-SERVICES', 'KUBE-SVC-ABCDEFGHIJKLMN23'])
    t.strictSame(
      byCapture.rules.map(({ text }) => text),
      ['INPUT -j KUBE-SERVICES'],
    )
    const modes: Keeps = (table, chain) =>
      table === 'nat' && /^KUBE-S(ERVICES|VC-)/.test(chain)
    const byMode = await plan('nat', chains, rules, { keeps: modes })
    t.strictSame(byMode.chains, ['KUBE-USHER-VIPS'])
    t.strictSame(
      byMode.rules.map(({ text }) => text),
      ['INPUT -j KUBE-USHER-VIPS'],
    )
    t.strictSame([byCapture.held, byMode.held], [[], []])
    for (const chain of ['KUBE-PORTALS-HOST', 'KUBE-NODEPORT-NON-LOCAL'])
      t.strictSame(
        (await plan('nat', [chain], [], { keeps: captures })).chains,
        [],
        chain,
      )
  },
)

t.test('what runs keeps all rules of a chain that kubelets had too', async t => {
  const chains = ['KUBE-POSTROUTING']
  const rules = [
    '-A KUBE-POSTROUTING -m set --match-set KUBE-6-LOOP-BACK dst,dst,src -j MASQUERADE',
  ]
  const keeps: Keeps = (_table, chain) => chains.includes(chain)
  const { rules: gone, chains: removed } = await plan('nat', chains, rules, { keeps })
  t.strictSame([gone, removed], [[], []])
})

t.test('KUBE-FIREWALL of filter is kube-proxy’s where no kubelet is', async t => {
  const localnet =
    '-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -j DROP'
  const jump = '-A INPUT -j KUBE-FIREWALL'
  const of = async (rules: readonly string[], more: readonly string[] = []) => {
    const {
      chains,
      rules: gone,
      held,
    } = await plan('filter', ['KUBE-FIREWALL'], rules, { more })
    return [chains.length, gone.length, held.length]
  }
  t.strictSame(await of([jump, localnet]), [1, 1, 0])
  const mark = '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP'
  t.strictSame(await of([jump, mark, localnet]), [0, 0, 0], 'a kubelet to 1.27')
  t.strictSame(await of([jump]), [0, 0, 0], 'somebody has emptied it')
  const kubelet = ['*mangle', ':KUBE-KUBELET-CANARY - [0:0]', 'COMMIT']
  t.strictSame(await of([jump, localnet], kubelet), [0, 0, 0])
  t.strictSame(
    await of(['-A INPUT -s 192.0.2.1/32 -j KUBE-FIREWALL', localnet]),
    [0, 0, 1],
  )
})
