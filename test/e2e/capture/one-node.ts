import type { Test } from 'tap'
import { type Agent, startAgent } from '../../support/net/agent.ts'
import { writeAgentProgram } from '../../support/net/agent-program.ts'
import { type NodeUsher, startNodeUsher } from '../../support/net/node-usher.ts'
import type { Outcome } from '../../support/net/outcome.ts'
import { tempDirectory } from '../../support/net/temp-directory.ts'
import { type ManifestFile, manifestFile } from '../../support/manifests.ts'
import { makeNetns, type Netns } from '../../support/netns.ts'
import { until } from '../../support/until.ts'
import { nodeTools } from './node-tools.ts'

/** A node with one pod, whose addresses are on a device of the node's own. */
export interface OneNode {
  readonly node: Netns
  readonly agent: Agent
  readonly manifests: ManifestFile
  /** Where Usher finds its tools. */
  readonly tools: string
  readonly start: (...flags: string[]) => NodeUsher
  readonly dial: (address: string, port?: number) => Promise<Outcome>
  /** Waits until it answers. */
  readonly answers: (address: string, withinMs: number, port?: number) => Promise<void>
}

const pods = ['10.244.1.7', 'fd00:244::7']

export const makeOneNode = async (t: Test, label: string): Promise<OneNode> => {
  const node = await makeNetns(label)
  const input = [
    'link add eth0 type veth peer name pod0',
    'link set pod0 up',
    'link set eth0 up',
    ...['0.0.0.0/0', '::/0'].map(each => `route add ${each} dev eth0`),
    ...['198.51.100.1/24', `${pods[0]}/32`].map(each => `addr add ${each} dev eth0`),
    ...['fd00:51::1/64', `${pods[1]}/128`].map(each => `addr add ${each} dev eth0 nodad`),
  ]
  await node.run('ip', ['-batch', '-'], { input: `${input.join('\n')}\n` })
  const agent = await startAgent(t, node, await writeAgentProgram(await tempDirectory(t)))
  await agent.serve('pod', pods, 8080)
  const manifests = await manifestFile(t)
  const tools = await nodeTools(t, 'nft')
  const dial = (address: string, port = 80) =>
    agent.dial({ protocol: 'TCP', address, port }, 500)
  return {
    node,
    agent,
    manifests,
    tools,
    start: (...flags) =>
      startNodeUsher(t, node, agent, {
        args: [`--manifests=${manifests.path}`, '--log-format=json', ...flags],
        tools,
      }),
    dial,
    answers: (address, withinMs, port) =>
      until(
        `${address} answers`,
        async () => (await dial(address, port)).result === 'answer',
        withinMs,
      ),
  }
}

/** A Service of both families and one slice for each; `more`: fields of its spec. */
export const dualService = (
  name: string,
  ips: readonly string[],
  more: object = {},
  annotations: object = {},
) => [
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, annotations },
    spec: {
      clusterIPs: ips,
      clusterIP: ips[0],
      ipFamilyPolicy: 'PreferDualStack',
      ports: [{ name: 'p', port: 80, targetPort: 8080 }],
      ...more,
    },
  },
  ...ips
    .map(ip => ip.includes(':'))
    .map(isSix => ({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `${name}-${isSix ? 6 : 4}`,
        labels: { 'kubernetes.io/service-name': name },
      },
      addressType: isSix ? 'IPv6' : 'IPv4',
      endpoints: [{ addresses: [pods[isSix ? 1 : 0]] }],
      ports: [{ name: 'p', port: 8080 }],
    })),
]
