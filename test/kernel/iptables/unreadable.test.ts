import t from 'tap'
import { serviceChainNames } from '../../../src/kernel/iptables/names.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { until } from '../../support/until.ts'
import {
  makeWorld,
  service,
  settings,
  skip,
  snapshotOf,
  type World,
  type WorldOptions,
} from './world.ts'

const web = service('web', 1, ['10.1.0.1', '10.1.0.2'])
const db = service('db', 2, ['10.1.0.3'])

type Native = readonly [how: 'add' | 'insert', where: string, rule: string]

/** Rules of nft's in the tables of iptables, as VPNs, firewalls and administrators have them. */
const natives: Readonly<Record<string, readonly Native[]>> = {
  'at the end': [
    ['add', 'filter INPUT', 'ct state established accept'],
    ['add', 'nat OUTPUT', 'fib daddr type local counter'],
  ],
  'at the top': [
    ['insert', 'filter INPUT', 'ct state established accept'],
    ['insert', 'filter FORWARD', 'log prefix "x"'],
    ['insert', 'nat PREROUTING', 'fib daddr type local counter'],
    ['insert', 'mangle OUTPUT', 'numgen random mod 2 0 accept'],
  ],
  'that iptables fails at': [
    ['insert', 'filter OUTPUT', 'meta mark set 1'],
    ['insert', 'nat POSTROUTING', 'meta mark set 1'],
  ],
  'in a chain of another program': [
    ['add', 'filter MINE', 'ct state established accept'],
    ['add', 'nat MINE', 'meta mark set 1'],
  ],
  'in a base chain of its own': [['add', 'filter mine', 'ct state established accept']],
}

const word = { IPv4: 'ip', IPv6: 'ip6' } as const
type Family = keyof typeof word

const prepare = async ({ run }: World, family: Family): Promise<void> => {
  const input = ['filter', 'nat', 'mangle']
    .map(name => `*${name}\n:MINE - [0:0]\n-A OUTPUT -p udp -j MINE\nCOMMIT\n`)
    .join('')
  await run(`${family === 'IPv4' ? 'ip' : 'ip6'}tables-nft-restore`, ['-n'], { input })
  const all = 'PREROUTING INPUT FORWARD OUTPUT POSTROUTING'.split(' ')
  for (const [table, chains] of [
    ['filter', all.slice(1, 4)],
    ['mangle', all],
    ['nat', all.filter(chain => chain !== 'FORWARD')],
  ] as const)
    for (const chain of chains)
      await run(`${word[family]}tables-nft`, [
        '-t',
        table,
        '-A',
        chain,
        '-s',
        '::1',
      ]).catch(() => run(`iptables-nft`, ['-t', table, '-A', chain, '-s', '192.0.2.1']))
  await run('nft', [
    `add chain ${word[family]} filter mine { type filter hook input priority -10; }`,
  ])
}

const addNative = async (
  { run }: World,
  family: Family,
  rules: readonly Native[],
): Promise<void> => {
  for (const [how, where, rule] of rules)
    await run('nft', [`${how} rule ${word[family]} ${where} ${rule}`])
}

/** All rules there are, without numbers; `not`: without these. */
const rulesNow = async (
  { run }: World,
  family: Family,
  not: readonly Native[] = [],
): Promise<readonly string[]> => {
  const text = await run('nft', ['-s', 'list', 'ruleset'])
  const lines = text.split('\n').filter(line => !line.startsWith('#'))
  for (const [, , rule] of not) {
    const [first = ''] = rule.split(' counter')
    const at = lines.findIndex(line =>
      line.trim().replace('0x0000000', '').startsWith(first),
    )
    if (at >= 0) lines.splice(at, 1)
  }
  return lines
}

const withoutNft =
  (run: RunTool): RunTool =>
  (command, ...rest) =>
    command === 'nft'
      ? Promise.reject(new ToolError('nft: not found', 'missing', ''))
      : run(command, ...rest)

const readyWorld = async (
  family: Family,
  around?: WorldOptions['around'],
): Promise<World> => {
  const world = await makeWorld({ family, ...(around && { around }) })
  await prepare(world, family)
  return world
}

const of = (family: Family, services: readonly (typeof web)[]) => {
  const ports = services.map(each => ({ ...each, family }))
  return { ...snapshotOf(family === 'IPv4' ? ports : []), family }
}

for (const family of ['IPv4', 'IPv6'] as const)
  for (const [where, rules] of Object.entries(natives))
    for (const around of family === 'IPv4' ? [undefined, withoutNft] : [undefined]) {
      const how = `${family}: rules of nft ${where}${around ? ', without nft' : ''}`
      t.test(how, { skip }, async t => {
        const clean = await readyWorld(family)
        await clean.proxier.sync(of(family, [web]), settings)
        const asAlone = await rulesNow(clean, family)
        const world = await readyWorld(family, around)
        await addNative(world, family, rules)
        const damaged: string[] = []
        const stop = world.proxier.watch(what => damaged.push(what))
        t.teardown(stop)
        const now = () => rulesNow(world, family, rules)
        for (const proxier of [world.proxier, world.another(), world.proxier]) {
          proxier.forget()
          await proxier.sync(of(family, [web]), settings)
          t.same((await now()).toSorted(), asAlone.toSorted(), 'nothing is there twice')
        }
        const problem = world.proxier.problems()[0]
        if (where.includes('base chain')) t.equal(problem, undefined)
        else t.match(problem?.object, `iptables table ${word[family]} filter`)
        for (let looks = 0; looks < 3; looks++) {
          await until('a look', () => world.clock.waiting > 0)
          world.clock.advance(4000)
        }
        await until('a look', () => world.clock.waiting > 0)
        t.same(damaged, [], 'which is no damage')
        t.same(world.proxier.problems()[0], problem)
        await world.proxier.sync(of(family, [db]), settings)
        await clean.proxier.sync(of(family, [db]), settings)
        t.same((await now()).toSorted(), (await rulesNow(clean, family)).toSorted())
      })
    }

const changes: readonly (readonly [
  what: string,
  how: readonly string[],
  said: string,
])[] = [
  [
    'a jump that is gone behind a rule that iptables fails at',
    [
      'flush chain ip filter FORWARD',
      'add rule ip filter FORWARD ct state established accept',
    ],
    'the jump from FORWARD',
  ],
  [
    'a rule of nft’s in a chain of Usher’s',
    ['insert rule ip nat KUBE-SERVICES meta mark set 1'],
    'chain KUBE-SERVICES of table nat is gone, or can',
  ],
  ['an own chain emptied', ['flush chain ip nat KUBE-SERVICES'], 'has 0 rules'],
  [
    'a chain of one Service emptied',
    [`flush chain ip nat ${serviceChainNames('default/web', 'tcp').cluster}`],
    'has 0 rules',
  ],
]

for (const [what, how, said] of changes)
  t.test(`in a table that can't be listed is repaired: ${what}`, { skip }, async t => {
    const world = await readyWorld('IPv4')
    await addNative(world, 'IPv4', natives['at the top'] ?? [])
    await world.proxier.sync(of('IPv4', [web]), settings)
    const asWritten = await rulesNow(world, 'IPv4')
    const damaged: string[] = []
    t.teardown(world.proxier.watch(damage => damaged.push(damage)))
    await world.run('nft', ['-f', '-'], { input: how.join('\n') })
    await until('a look', () => world.clock.waiting > 0)
    world.clock.advance(4000)
    await until('the damage', () => damaged.length > 0)
    t.match(damaged[0], said)
    world.proxier.forget()
    await world.proxier.sync(of('IPv4', [web]), settings)
    const isJump = (line: string): boolean => line.includes('KUBE-')
    t.same(
      (await rulesNow(world, 'IPv4')).filter(isJump).toSorted(),
      asWritten.filter(isJump).toSorted(),
    )
    damaged.length = 0
    await until('a look', () => world.clock.waiting > 0)
    world.clock.advance(4000)
    await until('a look', () => world.clock.waiting > 0)
    t.same(damaged, [])
  })

t.test('the problem ends with the rules, and what is twice goes', { skip }, async t => {
  const world = await readyWorld('IPv4', withoutNft)
  await world.proxier.sync(of('IPv4', [web]), settings)
  t.teardown(world.proxier.watch(() => t.fail('no damage')))
  const alone = await rulesNow(world, 'IPv4')
  await addNative(world, 'IPv4', natives['at the top'] ?? [])
  await world.another().sync(of('IPv4', [web]), settings)
  for (const chain of [
    'filter INPUT',
    'filter FORWARD',
    'nat PREROUTING',
    'mangle OUTPUT',
  ]) {
    const listed = await world.run('nft', [
      '-a',
      'list',
      'chain',
      'ip',
      ...chain.split(' '),
    ])
    const handle =
      /(?:established accept|log prefix "x"|fib daddr type local counter packets 0 bytes 0|numgen .*) # handle (\d+)/.exec(
        listed,
      )
    await world.run('nft', [`delete rule ip ${chain} handle ${handle?.[1]}`])
  }
  for (let looks = 0; looks < 2; looks++) {
    await until('a look', () => world.clock.waiting > 0)
    world.clock.advance(4000)
  }
  await until('a look', () => world.clock.waiting > 0)
  t.same(world.proxier.problems(), [])
  world.proxier.forget()
  await world.proxier.sync(of('IPv4', [web]), settings)
  t.same((await rulesNow(world, 'IPv4')).toSorted(), alone.toSorted())
})
