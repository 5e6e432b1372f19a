import type { Test } from 'tap'
import { podCidrs, serviceCidrs } from '../../../support/net/addresses.ts'
import { type Agents, startAgents } from '../../../support/net/cluster-agents.ts'
import { type ClusterNet, makeClusterNet } from '../../../support/net/cluster-net.ts'
import { type NodeUsher, startNodeUsher } from '../../../support/net/node-usher.ts'
import { tempDirectory } from '../../../support/net/temp-directory.ts'
import { type ManifestFile, manifestFile } from '../../../support/manifests.ts'
import {
  addForeignRules,
  type IptablesBackEnd,
  type SystemTexts,
  systemTexts,
} from './foreign.ts'
import { nodeName, objectsOf } from './objects.ts'
import { services } from './services.ts'

export interface CaptureRequest {
  readonly capture: 'nftables' | 'iptables' | 'local'
  /** The tool behind `iptables`; by default the system's choice. */
  readonly backEnd?: IptablesBackEnd
  /** Which it is, where the capture's name does not say it. */
  readonly label?: string
  /** Directories in which tools are looked for first. */
  readonly path?: string
}

export interface Stage {
  readonly net: ClusterNet
  readonly agents: Agents
  readonly manifests: ManifestFile
  /** Rules of somebody else, and all else that the node was told before Usher came. */
  readonly before: SystemTexts
  /** The same, now. */
  readonly now: () => Promise<SystemTexts>
  /** What Usher remembers over its restarts. */
  readonly stateDir: string
  /** Starts one with these flags besides; killed when the test ends. */
  readonly start: (...flags: string[]) => NodeUsher
}

/** The cluster with all Services of the matrix in manifests. */
export const makeStage = async (t: Test, request: CaptureRequest): Promise<Stage> => {
  const { capture, label = capture, path = '', backEnd = 'nft' } = request
  const net = await makeClusterNet(label)
  const agents = await startAgents(t, net)
  const manifests = await manifestFile(t, ...objectsOf(services))
  const stateDir = await tempDirectory(t)
  const args = [
    manifests.path,
    `--state-dir=${stateDir}`,
    `--capture=${capture}`,
    `--hostname-override=${nodeName}`,
    `--service-cidr=${serviceCidrs.IPv4},${serviceCidrs.IPv6}`,
    `--cluster-cidr=${podCidrs.IPv4},${podCidrs.IPv6}`,
  ]
  await addForeignRules(net.node.run, backEnd, capture)
  const now = (): Promise<SystemTexts> => systemTexts(net.node.run, backEnd)
  const start = (...flags: string[]): NodeUsher =>
    startNodeUsher(t, net.node, agents.node, { args: [...args, ...flags], path })
  return { net, agents, manifests, before: await now(), now, stateDir, start }
}
