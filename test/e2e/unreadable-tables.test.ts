// A process of its own: long, and it mostly waits.
import t, { type Test } from 'tap'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { addressOf, backendPort, podCidrs } from '../support/net/addresses.ts'
import { startAgents } from '../support/net/cluster-agents.ts'
import { makeClusterNet } from '../support/net/cluster-net.ts'
import { startNodeUsher } from '../support/net/node-usher.ts'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { nodeTools } from './capture/node-tools.ts'
import { iptablesCapture, iptablesMode, nftablesMode, type Way } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft')
const options = { skip: why !== '' && why }

const objectsOf = (vip: string): readonly object[] => [
  service('web', vip, [{ name: 'p', port: 80 }]),
  ...slice('web', [{ key: '', address: addressOf['backend-1'].IPv4, port: backendPort }]),
]

/** At both ends of chains that packets to VIPs come through, in either family. */
const natives = ['ip', 'ip6'].flatMap(family => [
  `insert rule ${family} filter INPUT ct state established accept`,
  `insert rule ${family} filter FORWARD ct state established accept`,
  `add rule ${family} nat PREROUTING fib daddr type local counter`,
  `insert rule ${family} nat OUTPUT fib daddr type local counter`,
])

/** iptables-nft makes a chain with its first rule, and nft adds to those that are there. */
const chainsOfTheirOwn = Object.entries({
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'OUTPUT'],
})
  .map(([table, chains]) => {
    const rules = chains.map(chain => `-A ${chain} -m mark --mark 0x77 -j RETURN\n`)
    return `*${table}\n${rules.join('')}COMMIT\n`
  })
  .join('')

const tellsOf = async (t: Test, way: Way, mixedFirst: boolean): Promise<void> => {
  const net = await makeClusterNet(`unread-${way.label}`)
  const { run } = net.node
  const agents = await startAgents(t, net)
  const manifests = await manifestFile(t, ...objectsOf('10.96.0.101'))
  const tools = await nodeTools(t, 'nft')
  const start = ({ flags }: Way) =>
    startNodeUsher(t, net.node, agents.node, {
      args: [manifests.path, ...flags, `--cluster-cidr=${podCidrs.IPv4}`],
      tools,
    })
  const answered = (from: 'node' | 'pod-1', address: string) =>
    agents[from].dial({ protocol: 'TCP', address, port: 80 }, 5000)
  const served = async (address: string): Promise<void> => {
    for (const from of ['node', 'pod-1'] as const)
      t.match(
        await answered(from, address),
        { backend: 'backend-1' },
        `${from} ${address}`,
      )
  }
  const ruleset = () => run('nft', ['-s', 'list', 'ruleset'])
  for (const family of ['ip', 'ip6'])
    await run(`${family}tables-nft-restore`, ['-n'], { input: chainsOfTheirOwn })
  const mix = () => run('nft', ['-f', '-'], { input: natives.join('\n') })
  if (mixedFirst) await mix()
  let usher = start(way)
  await usher.ready(1)
  await served('10.96.0.101')
  if (!mixedFirst) await mix()
  const jumps = async () => (await ruleset()).match(/jump KUBE-/g)?.length
  const before = await jumps()
  const tables = async () =>
    (await usher.status()).problems
      .map(({ object }) => object)
      .filter(each => /table/.test(each))
  await until('the problems', async () => (await tables()).length === 4)
  await manifests.write(...objectsOf('10.96.0.102'))
  await until('the change', async () => (await ruleset()).includes('10.96.0.102'))
  await usher.ready(1)
  await served('10.96.0.102')
  t.match(await agents.node.get('127.0.0.1', 10_256, '/healthz'), { status: 200 })
  t.equal(await jumps(), before, 'none is there twice')
  usher.send('SIGTERM')
  await usher.exit
  if (way.label.startsWith('iptables'))
    t.notMatch(await ruleset(), /KUBE-/, 'an orderly end leaves nothing')
  usher = start(nftablesMode)
  await usher.ready(1)
  await served('10.96.0.102')
  await until('the leftovers are gone', async () => !/KUBE-/.test(await ruleset()))
  await served('10.96.0.102')
}

t.test('iptables mode, from the start', options, t =>
  tellsOf(t, iptablesMode('nft'), true),
)
t.test('capture iptables, while it runs', options, t =>
  tellsOf(t, iptablesCapture('nft'), false),
)
