import t from 'tap'
import { parseOptions } from '../../src/config/parse.ts'
import { UsageError } from '../../src/config/usage-error.ts'
import { Progress, timeText } from '../../bench/measure-all.ts'
import { planOf } from '../../bench/plan.ts'
import { isMainlyFor } from '../../bench/scenarios/scenario.ts'
import { FakeClock } from '../support/fake-clock.ts'

const plan = (...args: readonly string[]) => planOf(parseOptions('bench', args))
const names = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name)

t.test('without flags everything is measured, 5 rounds of 2 s', async t => {
  const { scenarios, targets, rounds, seconds } = plan()
  t.ok(names(scenarios).includes('requests-1') && names(scenarios).includes('churn'))
  for (const name of ['direct', 'usher-linux', 'usher-mode-iptables', 'haproxy', 'pipe'])
    t.ok(names(targets).includes(name), name)
  t.match({ rounds, seconds }, { rounds: 5, seconds: 2 })
})

t.test('--quick is a part of it, 3 rounds of 1 s', async t => {
  const { scenarios, targets, rounds, seconds } = plan('--quick')
  t.ok(scenarios.length > 0 && scenarios.every(({ quick }) => quick))
  t.notOk(names(targets).includes('pipe'))
  t.ok(names(targets).includes('usher-mode-iptables'), 'a kernel mode, too')
  t.match({ rounds, seconds }, { rounds: 3, seconds: 1 })
})

t.test('a variant takes part where it tells more than its siblings', async t => {
  const { scenarios, targets } = plan()
  const isIn = (target: string, scenario: string) =>
    isMainlyFor(
      targets.find(({ name }) => name === target) ?? { name: target },
      scenarios.find(({ name }) => name === scenario) ?? { name: '', group: 'bulk' },
    )
  t.ok(isIn('usher-nftables', 'first-10000'), 'by the name of a group')
  t.ok(isIn('usher-linux-2', 'download-8'), 'by its own name')
  t.notOk(isIn('usher-linux-2', 'download-1'))
  t.ok(isIn('usher-linux', 'download-1') && isIn('haproxy', 'idle'))
  t.ok(isIn('haproxy-copy', 'download-1') && !isIn('haproxy-copy', 'download-8'))
  t.ok(isIn('usher', 'first-1') && !isIn('usher', 'requests-1'))
  t.notOk(names(plan('--only', 'udp').targets).includes('usher-local'), 'not started')
})

t.test('a target that is asked for by name takes part in everything', async t => {
  const { targets } = plan('--targets', 'usher-local,direct', '--only', 'udp')
  t.strictSame(names(targets), ['direct', 'usher-local'])
  t.ok(targets.every(({ mainlyFor }) => mainlyFor === undefined))
})

t.test('--quick gives way to what is asked for by name', async t => {
  const asked = ['--only', 'first-10000', '--targets=pipe', '--rounds=7', '--seconds=5']
  const { scenarios, targets, rounds, seconds } = plan('--quick', ...asked)
  t.strictSame(names(scenarios), ['first-10000'])
  t.strictSame(names(targets), ['pipe'])
  t.match({ rounds, seconds }, { rounds: 7, seconds: 5 })
})

t.test('names and groups are taken once each, in the known order', async t => {
  const { scenarios, targets } = plan(
    '--only',
    'udp-64-4, bulk,download-1',
    '--only=connections',
    '--targets',
    'haproxy,direct,haproxy',
  )
  t.equal(names(scenarios)[0], 'connections')
  t.equal(names(scenarios).at(-1), 'udp-64-4')
  t.equal(names(scenarios).filter(name => name === 'download-1').length, 1)
  t.strictSame(names(targets), ['direct', 'haproxy'])
})

t.test('what is given as an address or a command is measured always', async t => {
  const given = ['--target', 'kube-proxy=10.96.0.10:80', '--baseline', 'node old.js']
  const { targets } = plan('--targets', 'direct', ...given)
  t.strictSame(names(targets), ['direct', 'baseline', 'kube-proxy'])
})

t.test('backends of its own leave what asks HTTP servers only', async t => {
  const { scenarios } = plan('--backend', '10.0.0.1:80')
  t.ok(scenarios.length > 0 && scenarios.every(({ httpOnly }) => httpOnly))
})

const refused: readonly [string, readonly string[], RegExp][] = [
  ['an unknown scenario', ['--only', 'tcp'], /--only: "tcp" is none of them; give requ/],
  [
    'an unknown target',
    ['--targets', 'x'],
    /--targets: "x" is none of them; give direct/,
  ],
  ['an empty name', ['--targets', 'a,'], /--targets: "a," has an empty name/],
  ['a name that is taken', ['--target', 'direct=1.2.3.4:5'], /direct is there already/],
  [
    'a name twice',
    ['--target=a=1.2.3.4:5', '--target=a=1.2.3.4:6'],
    /a is there already/,
  ],
  ['a host name', ['--backend', 'web:80'], /--backend: "web:80" is not an IP address/],
  ['half a round', ['--rounds', '1.5'], /--rounds: "1.5" is not a whole number/],
  ['endless seconds', ['--seconds', 'Infinity'], /--seconds: /],
  ['a moment', ['--seconds', '0.01'], /is not a number of seconds from 0.1 to 600/],
  [
    'nothing that HTTP servers could answer',
    ['--backend=1.2.3.4:5', '--only=udp'],
    /--only: none of them can be measured with --backend; give requests-1, /,
  ],
]
for (const [what, args, words] of refused)
  t.test(`${what} is refused by the flag's name`, async t =>
    t.throws(() => plan(...args), { message: words, constructor: UsageError }),
  )

t.test('the time left is corrected by how long the steps really took', async t => {
  const clock = new FakeClock()
  const written: string[] = []
  const progress = new Progress(20, { write: text => written.push(text) }, clock)
  progress.step('one', 10)
  clock.advance(20_000)
  progress.step('two', 10)
  t.strictSame(written, ['one, 20 s left\n', 'two, 20 s left\n'])
  t.equal(timeText(125), '2 min 05 s')
})

t.test('a terminal sees one line that is written over', async t => {
  const written: string[] = []
  const screen = { isTTY: true, write: (text: string) => written.push(text) }
  const progress = new Progress(20, screen, new FakeClock())
  progress.step('one', 10)
  progress.clear()
  t.strictSame(written, ['\r\u001B[Kone, 20 s left', '\r\u001B[K'])
})
