// A process of its own: it mostly waits.
import t from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { dualService, makeOneNode } from './capture/one-node.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const skip = why !== '' && why
t.jobs = 2

const web = ['10.96.0.40', 'fd00:96::40']
const ways = [
  '--proxy-mode=nftables',
  '--capture=nftables',
  '--capture=iptables',
  '--capture=local',
]

for (const way of ways)
  t.test(`${way}: IPv6 that comes up after Usher, and not on lo`, { skip }, async t => {
    const { node, manifests, start, answers } = await makeOneNode(t, 'later')
    const set = (value: number) =>
      node.run('sysctl', ['-qw', `net.ipv6.conf.all.disable_ipv6=${value}`])
    await set(1)
    await manifests.write(...dualService('web', web))
    const usher = start(way, '--sync-period=10m')
    await answers('10.96.0.40', 30_000)
    await until('it is healthy', async () => (await usher.status()).healthy)
    const { problems } = await usher.status()
    t.equal(problems.length, way.includes('mode') ? 0 : 1, 'captures miss an address')
    await set(0)
    const input = [
      'addr del ::1/128 dev lo',
      'addr add fd00:51::1/64 dev eth0 nodad',
      'addr add fd00:244::7/128 dev eth0 nodad',
      'route add ::/0 dev eth0',
    ].join('\n')
    await node.run('ip', ['-6', '-batch', '-'], { input: `${input}\n` })
    await answers('fd00:96::40', 60_000)
    await until(
      'nothing is wrong',
      async () => (await usher.status()).problems.length === 0,
    )
  })

for (const way of ways.slice(0, 3))
  t.test(`${way}: IPv4 without 127.0.0.1`, { skip }, async t => {
    const { node, manifests, start, answers } = await makeOneNode(t, 'bare')
    await node.run('ip', ['addr', 'del', '127.0.0.1/8', 'dev', 'lo'])
    await manifests.write(...dualService('web', web))
    start(way)
    await answers('10.96.0.40', 30_000)
  })
