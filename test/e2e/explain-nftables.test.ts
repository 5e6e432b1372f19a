import t from 'tap'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { startAgent } from '../support/net/agent.ts'
import { writeAgentProgram } from '../support/net/agent-program.ts'
import { startNodeUsher } from '../support/net/node-usher.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { makeNetns, whyNoNetns } from '../support/netns.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { usherIn } from '../support/usher-in.ts'

const why = await whyNoNetns('nft')

t.test(
  'in nftables mode what is explained is what the kernel has',
  { skip: why !== '' && why },
  async t => {
    const node = await makeNetns('ex')
    const agent = await startAgent(
      t,
      node,
      await writeAgentProgram(await tempDirectory(t)),
    )
    const web = service('web', '10.96.0.10', [{ name: 'p', port: 80 }])
    const none = service('none', '10.96.0.11', [{ name: 'p', port: 80 }])
    const endpoints = slice('web', [endpoint('10.0.0.2', 8080)])
    const file = await manifestFile(t, web, none, ...endpoints)
    const usher = startNodeUsher(t, node, agent, {
      args: [`--manifests=${file.path}`, '--proxy-mode=nftables', '--log-format=json'],
      tools: '/usr/sbin:/sbin',
    })
    await usher.ready(2)
    const explain = async (address: string) => {
      const { out } = await usherIn(node, ['explain', '10.0.3.7', address, '-o', 'json'])
      return JSON.parse(out) as {
        verdict: { action: string }
        looks: { what: string; command: string }[]
      }
    }
    const [served, refused] = [
      await explain('10.96.0.10:80'),
      await explain('10.96.0.11:80'),
    ]
    t.equal(served.verdict.action, 'forward')
    t.equal(refused.verdict.action, 'refuse')
    t.match(served.looks, [{ what: /^map service-ips/ }, { what: /^chain cluster-ip-/ }])
    t.match(refused.looks, [
      { what: /^map no-endpoint-services/ },
      { what: 'chain refuse' },
    ])
    for (const { command } of [...served.looks, ...refused.looks])
      t.not(await node.run('sh', ['-c', command]), '', command)
  },
)
