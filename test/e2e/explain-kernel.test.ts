import t from 'tap'
import { boundClients } from '../../src/kernel/proxier.ts'
import type { AnswerOf } from '../../src/observe/control-protocol.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { startAgent } from '../support/net/agent.ts'
import { writeAgentProgram } from '../support/net/agent-program.ts'
import { startNodeUsher } from '../support/net/node-usher.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { usherIn } from '../support/usher-in.ts'

const why = await netnsProblem('nft', 'iptables', 'ip')

const nodeAddress = '10.0.0.1'

for (const { mode, served, refused, bound } of [
  {
    mode: 'nftables',
    served: [/^map service-ips/, /^chain cluster-ip-/],
    refused: [/^map no-endpoint-services/, /^chain refuse$/],
    bound: /: set affinity-/,
  },
  {
    mode: 'iptables',
    served: [/^nat KUBE-SERVICES: KUBE-SVC-/, /^nat KUBE-SVC-/],
    refused: [/^filter KUBE-SERVICES: REJECT$/],
    bound: /: list KUBE-SEP-/,
  },
])
  t.test(
    `in ${mode} mode what is explained is what the kernel has`,
    { skip: why !== '' && why },
    async t => {
      const node = await makeNetns('ex')
      // Whoever dials a VIP has a route to it; nobody is behind it.
      await node.run('ip', 'link add node type veth peer name peer'.split(' '))
      await node.run('ip', ['address', 'add', `${nodeAddress}/24`, 'dev', 'node'])
      for (const each of ['node', 'peer'])
        await node.run('ip', ['link', 'set', each, 'up'])
      await node.run('ip', 'route add default dev node'.split(' '))
      const agent = await startAgent(
        t,
        node,
        await writeAgentProgram(await tempDirectory(t)),
      )
      const ports = [{ name: 'p', port: 80 }]
      const file = await manifestFile(
        t,
        service('web', '10.96.0.10', ports),
        service('none', '10.96.0.11', ports),
        service('sticky', '10.96.0.12', ports, { sessionAffinity: 'ClientIP' }),
        ...slice('web', [endpoint('10.0.0.2', 8080)]),
        ...slice('sticky', [endpoint('10.0.0.3', 8080)]),
      )
      const usher = startNodeUsher(t, node, agent, {
        args: [`--manifests=${file.path}`, `--proxy-mode=${mode}`, '--log-format=json'],
        tools: '/usr/sbin:/sbin',
      })
      await usher.ready(3)
      const explain = async (address: string) => {
        const line = ['explain', nodeAddress, address, '-o', 'json']
        const { out } = await usherIn(node, line)
        return JSON.parse(out) as AnswerOf<'explain'>
      }
      const shown = (command: string) => node.run('sh', ['-c', command])

      const web = await explain('10.96.0.10:80')
      t.match(web, { verdict: { action: 'forward' }, notes: [] })
      t.match(web.endpoints, [{ endpoint: '10.0.0.2:8080', serves: true, chance: 1 }])
      t.match(
        web.looks,
        served.map(what => ({ what })),
      )
      const { out } = await usherIn(node, ['explain', nodeAddress, '10.96.0.10:80'])
      for (const { what, command } of web.looks) t.match(out, `\n${what}\n  ${command}\n`)
      const none = await explain('10.96.0.11:80')
      t.match(none, { verdict: { action: 'refuse' }, notes: [] })
      t.match(
        none.looks,
        refused.map(what => ({ what })),
      )
      for (const { command } of [...web.looks, ...none.looks])
        t.not(await shown(command), '', command)

      await agent.dial({ protocol: 'TCP', address: '10.96.0.12', port: 80 }, 500)
      const sticky = await explain('10.96.0.12:80')
      t.match(sticky.notes, [/by affinity is not read; see "clients bound by affinity"/])
      const list = sticky.looks.find(({ what }) => what.startsWith(boundClients))
      t.match(list?.what, bound)
      t.match(await shown(list?.command ?? 'false'), nodeAddress)
    },
  )
