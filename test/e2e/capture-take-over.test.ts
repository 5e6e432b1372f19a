// A process of its own: long, and it mostly waits.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { commandOf } from '../support/data-plane.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import type { NodeUsher } from '../support/net/node-usher.ts'
import { netnsProblem } from '../support/netns.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { until } from '../support/until.ts'
import { dualService, makeOneNode } from './capture/one-node.ts'
import { proxyPortsOf } from './capture/proxy-ports.ts'
import {
  iptablesCapture,
  localCapture,
  nftablesCapture,
  nftablesMode,
  type Way,
} from './capture/ways.ts'

const problem = (await netnsProblem('nft', 'iptables')) || linuxRelaySkip()

/** In nftables mode the relay carries those that ask for it. */
const relayed = { 'usher-proxy.io/relay': 'true' }
const web = [
  ...dualService('web', ['10.96.0.10', 'fd00:96::10'], {}, relayed),
  ...dualService('plain', ['10.96.0.13', 'fd00:96::13']),
]
const more = dualService('more', ['10.96.0.11', 'fd00:96::11'], {}, relayed)
const last = dualService('last', ['10.96.0.12', 'fd00:96::12'])

const says = (usher: NodeUsher, msg: string): boolean =>
  usher.records.some(record => record.msg === msg)

const tookOver = ({ records }: NodeUsher): boolean =>
  records.some(({ msg }) => msg.startsWith('took over'))

/** What leads clients, however often it was written: without what rules have counted, and their order. */
const rulesOf = (text: string): string =>
  text
    .replaceAll(/packets \d+ bytes \d+/g, '')
    .replaceAll(/\[\d+:\d+\]/g, '')
    .split('\n')
    .filter(line => !/^#|elements = \{ 0x[\da-f]+ \}/.test(line))
    .toSorted()
    .join('\n')

const takeOvers = async (t: Test, way: Way): Promise<void> => {
  const one = await makeOneNode(t, `over-${way.label.slice(-6)}`)
  const { node, agent, manifests } = one
  await manifests.write(...web)
  const socket = join(await tempDirectory(t), 's')
  const flags = [...way.flags, `--control-socket=${socket}`]
  const rules = async (): Promise<string> =>
    rulesOf(await node.run('nft', ['list', 'ruleset'])) +
    rulesOf(await node.run('iptables-save', [])) +
    (await node.run('ip', ['addr', 'show', 'dev', 'lo']))
  const to = { protocol: 'TCP', address: '10.96.0.10', port: 80 } as const
  const toSix = { protocol: 'TCP', address: 'fd00:96::10', port: 80 } as const
  let usher = one.start(...flags)
  await usher.ready(4)
  const kept = [await agent.open(to), await agent.open(toSix)]
  for (const { ask } of kept) t.equal(await ask(), 'pod')
  const before = await rules()
  const ports = way === localCapture ? [] : await proxyPortsOf(usher)

  await t.test('from one to the next', async t => {
    const watched = node.run('sh', ['-c', 'timeout 6 ip monitor address route; true'])
    const end = await agent.load([to, toSix], 5000)
    const next = one.start(...flags)
    t.match(await usher.exit, { code: 0 })
    await next.ready(4)
    const { failures } = await end()
    t.strictSame(failures, [], 'none is refused or cut')
    t.notMatch(
      await watched,
      /Deleted.*(169\.254\.77\.88|fd75:7368:6572::1|10\.96\.|fd00:96)/,
    )
    for (const { ask } of kept) t.equal(await ask(), 'pod', 'it goes on')
    t.equal(await rules(), before, 'rules are as they were')
    if (way !== localCapture) t.strictSame(await proxyPortsOf(next), ports)
    const { connections = 0, lost } = (await next.status()).tookOver ?? {}
    // And those that come and go.
    t.ok(connections >= 2)
    t.equal(lost, '')
    usher = next
  })

  await t.test('the one that has taken over writes rules', async t => {
    await manifests.write(...web, ...more)
    await one.answers('10.96.0.11', 20_000)
    await one.answers('fd00:96::11', 20_000)
    for (const { ask } of kept) t.equal(await ask(), 'pod')
  })

  await t.test(
    'one that is killed as it begins leaves all to the one before',
    async t => {
      const next = one.start(...flags)
      await until('it begins', () => says(usher, 'another Usher is taking over'))
      next.send('SIGKILL')
      await next.exit
      await until('it has not taken over', () =>
        says(usher, 'the other Usher has not taken over; this one serves on as before'),
      )
      for (const { ask } of kept) t.equal(await ask(), 'pod')
      await manifests.write(...web, ...last)
      await one.answers('10.96.0.12', 20_000)
      await one.answers('fd00:96::12', 20_000)
      await until(
        'what is gone refuses',
        async () => (await one.dial('10.96.0.11')).result !== 'answer',
      )
      t.equal((await one.dial('10.96.0.10')).result, 'answer')
    },
  )

  await t.test('of two that come at once one serves in the end', async t => {
    const both = [one.start(...flags), one.start(...flags)]
    t.match(await usher.exit, { code: 0 })
    await until('one has taken over', () => both.some(tookOver))
    for (const { ask } of kept) t.equal(await ask(), 'pod')
    for (const address of ['10.96.0.10', '10.96.0.12']) await one.answers(address, 20_000)
    // The other was refused, or waits; or it has taken over from the first, and serves.
    const gone = new Set<NodeUsher>()
    for (const each of both) void each.exit.then(() => gone.add(each))
    await until('it is known which', () => {
      const all = both.filter(tookOver)
      return all.length === 1 || all.some(each => gone.has(each))
    })
    const serving = both.find(each => tookOver(each) && !gone.has(each))
    t.ok(serving)
    if (serving === undefined) return
    for (const other of both) if (other !== serving) other.send('SIGKILL')
    usher = serving
  })

  await t.test('connections outlive a crash of the control plane', async t => {
    const state = join(await tempDirectory(t), 'state')
    const remembering = [...flags, `--state-dir=${state}`, '--orphan-timeout=30s']
    const next = one.start(...remembering)
    t.match(await usher.exit, { code: 0 })
    await next.ready(6)
    // Its proxy ports are written a second after they have changed.
    if (way !== localCapture)
      await until('it can be followed', () => existsSync(join(state, 'proxy-ports')))
    next.send('SIGKILL')
    // Its output is open yet: its data plane has that, too.
    await until('it has ended', () => commandOf(next.pid).length <= 1)
    for (const { ask } of kept) t.equal(await ask(), 'pod', 'it is served on')
    usher = one.start(...remembering)
    await usher.ready(6)
    t.match((await usher.status()).tookOver, { connections: 2, lost: '' })
    for (const { ask } of kept) t.equal(await ask(), 'pod', 'and by the next one')
  })

  await t.test('at its end nothing is left', async t => {
    await Promise.all(kept.map(({ close }) => close()))
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    // In its own mode the kernel serves on, without the relay.
    const left =
      way === nftablesMode ? / : (169|fd75)\S+ \. |inet6? (169|fd75)/ : /usher|10\.96\.0/
    t.notMatch(await rules(), left)
  })
}

t.jobs = 3

const ways = [nftablesCapture, iptablesCapture('nft'), localCapture, nftablesMode]
for (const way of ways)
  t.test(`take-overs with ${way.label}`, { skip: problem }, t => takeOvers(t, way))
