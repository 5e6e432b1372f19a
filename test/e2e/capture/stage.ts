import type { Test } from 'tap'
import { clusterCidrs, serviceCidrs } from '../../support/net/addresses.ts'
import { type Agents, startAgents } from '../../support/net/cluster-agents.ts'
import { type ClusterNet, makeClusterNet } from '../../support/net/cluster-net.ts'
import {
  type NodeUsher,
  runNodeUsher,
  startNodeUsher,
} from '../../support/net/node-usher.ts'
import { tempDirectory } from '../../support/net/temp-directory.ts'
import { type ManifestFile, manifestFile } from '../../support/manifests.ts'
import { addForeignRules, type SystemTexts, systemTexts } from './foreign.ts'
import { nodeTools } from './node-tools.ts'
import { nodeName, objectsOf } from './objects.ts'
import { services } from './services.ts'
import type { Way } from './ways.ts'

export interface Stage {
  readonly net: ClusterNet
  readonly agents: Agents
  readonly manifests: ManifestFile
  /** Rules of somebody else, and all else that the node was told before Usher came. */
  readonly before: SystemTexts
  /** The same, now. */
  readonly now: () => Promise<SystemTexts>
  /** The directory in which Usher finds the tools that it calls. */
  readonly tools: string
  /** What Usher remembers over its restarts. */
  readonly stateDir: string
  /** Starts one with these flags besides; killed when the test ends. */
  readonly start: (...flags: string[]) => NodeUsher
  /** The same, told of another way than the stage's. */
  readonly startBy: (way: Way, ...flags: string[]) => NodeUsher
  /** `usher cleanup` on the node: what it says; rejects when it did not get all. */
  readonly cleanUp: () => Promise<string>
}

/** The cluster with all Services of the matrix in manifests. */
export const makeStage = async (t: Test, way: Way): Promise<Stage> => {
  const { label, backEnd, opensFilter } = way
  const net = await makeClusterNet(label)
  const agents = await startAgents(t, net)
  const manifests = await manifestFile(t, ...objectsOf(services))
  const stateDir = await tempDirectory(t)
  const tools = await nodeTools(t, backEnd)
  const args = [
    manifests.path,
    `--state-dir=${stateDir}`,
    `--hostname-override=${nodeName}`,
    `--service-cidr=${serviceCidrs.IPv4},${serviceCidrs.IPv6}`,
    `--cluster-cidr=${clusterCidrs.IPv4},${clusterCidrs.IPv6}`,
  ]
  await addForeignRules(net.node.run, backEnd, opensFilter)
  const now = (): Promise<SystemTexts> => systemTexts(net.node.run, backEnd)
  const startBy = ({ flags }: Way, ...more: string[]): NodeUsher =>
    startNodeUsher(t, net.node, agents.node, {
      args: [...args, ...flags, ...more],
      tools,
    })
  return {
    net,
    agents,
    manifests,
    before: await now(),
    now,
    stateDir,
    tools,
    start: (...flags) => startBy(way, ...flags),
    startBy,
    cleanUp: () => runNodeUsher(net.node, ['cleanup'], tools),
  }
}
