import { existsSync } from 'node:fs'
import t from 'tap'
import { usherIn } from '../support/usher-in.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { startAgent } from '../support/net/agent.ts'
import { writeAgentProgram } from '../support/net/agent-program.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { startNodeUsher } from '../support/net/node-usher.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { makeNetns, type Netns, netnsProblem } from '../support/netns.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')

const sysctls = [
  'net.ipv4.conf.all.route_localnet',
  'net.netfilter.nf_conntrack_tcp_timeout_established',
  'net.netfilter.nf_conntrack_tcp_timeout_close_wait',
]

/** Rules without the base chains, which iptables can't take away, and settings. */
const photograph = async ({ run }: Netns): Promise<string> => {
  const texts = [
    await run('iptables-save', []),
    await run('ip6tables-save', []),
    await run('sysctl', sysctls),
  ]
  return texts
    .join('\n')
    .split('\n')
    .filter(line => /^-A|^:KUBE|^net\./.test(line))
    .join('\n')
}

t.test(
  'iptables mode says what runs, leaves its rules at the end, and cleanup ends them',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('km')
    const agent = await startAgent(
      t,
      node,
      await writeAgentProgram(await tempDirectory(t)),
    )
    const web = service('web', '10.96.0.10', [{ name: 'p', port: 80, nodePort: 30_080 }])
    const file = await manifestFile(t, web, ...slice('web', [endpoint('10.0.0.2', 8080)]))
    // conntrack's settings are there when somebody has used it.
    await node.run('iptables', [
      '-A',
      'OUTPUT',
      '-m',
      'conntrack',
      '--ctstate',
      'INVALID',
    ])
    const before = await photograph(node)
    const usher = startNodeUsher(t, node, agent, {
      args: [`--manifests=${file.path}`, '--proxy-mode=iptables', '--log-format=json'],
      tools: '/usr/sbin:/sbin',
    })
    await usher.ready(1)

    const status = await usher.status()
    t.match(status, {
      mode: 'iptables',
      modeChoice: { askedBy: '--proxy-mode', detail: /^iptables \d/, passedOver: [] },
      capture: null,
      relay: null,
      fds: { used: 0, limit: 0 },
      servicePorts: [
        {
          vips: [
            { vip: '10.96.0.10:80', capture: 'kernel', listen: '', state: 'forwarding' },
          ],
        },
      ],
    })
    const { body } = await agent.get('127.0.0.1', 10_249, '/proxyMode')
    t.equal(body, 'iptables')
    const metrics = (await agent.get('127.0.0.1', 10_249, '/metrics')).body
    t.match(metrics, '\nusher_proxy_mode{mode="iptables"} 1\n')
    t.match(metrics, 'kubeproxy_sync_proxy_rules_iptables_total{table="nat"')
    t.notMatch(metrics, /^usher_(relay|connections|capture)/m)
    const counted = async () => {
      const text = (await agent.get('127.0.0.1', 10_249, '/metrics')).body
      const lines = text.matchAll(/^kubeproxy_iptables_(\w+)_packets_total (\d+)$/gm)
      return Object.fromEntries(Array.from(lines, ([, name, n]) => [name, n]))
    }
    t.strictSame(await counted(), {
      ct_state_invalid_dropped: '0',
      localhost_nodeports_accepted: '0',
    })
    await agent.dial({ protocol: 'TCP', address: '127.0.0.1', port: 30_080 }, 200)
    t.strictSame(await counted(), {
      ct_state_invalid_dropped: '0',
      localhost_nodeports_accepted: '1',
    })
    t.match(await photograph(node), /route_localnet = 1\n.*established = 86400\n/)

    usher.send('SIGTERM')
    t.strictSame(await usher.exit, { code: 0, signal: null })
    t.match(await node.run('iptables-save', []), ':KUBE-SERVICES ')

    const cleaned = await usherIn(node, ['cleanup'])
    t.match(cleaned, { code: 0, err: '', out: /removed setting .*route_localnet = 1/ })
    t.equal(await photograph(node), before)
    t.strictSame((await usherIn(node, ['cleanup'])).out, 'nothing to clean up\n')
    const id = /\d+/.exec(await node.run('readlink', ['/proc/self/ns/net']))?.[0]
    t.notOk(existsSync(`/run/usher/sysctls-${id}.json`))
  },
)
