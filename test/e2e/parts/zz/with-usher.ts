import type { Test } from 'tap'
import { podCidrs, serviceCidrs } from '../../../support/zznet/addresses.ts'
import { type Agents, startAgents } from '../../../support/zznet/cluster-agents.ts'
import { type ClusterNet, makeClusterNet } from '../../../support/zznet/cluster-net.ts'
import { type NodeUsher, startNodeUsher } from '../../../support/zznet/node-usher.ts'
import { type ManifestFile, manifestFile } from '../../../support/manifests.ts'
import { nodeName, objectsOf } from './objects.ts'
import { services } from './services.ts'

export interface CaptureRequest {
  readonly capture: 'nftables' | 'iptables' | 'local'
  /** Which it is, where the capture's name does not say it. */
  readonly label?: string
  /** Directories in which tools are looked for first. */
  readonly path?: string
}

export interface Stage {
  readonly net: ClusterNet
  readonly agents: Agents
  readonly manifests: ManifestFile
  /** Starts one with these flags besides; killed when the test ends. */
  readonly start: (...flags: string[]) => NodeUsher
}

export interface StageWithUsher extends Stage {
  readonly usher: NodeUsher
}

/** The cluster with all Services of the matrix in manifests. */
export const makeStage = async (t: Test, request: CaptureRequest): Promise<Stage> => {
  const { capture, label = capture, path = '' } = request
  const net = await makeClusterNet(label)
  const agents = await startAgents(t, net)
  const manifests = await manifestFile(t, ...objectsOf(services))
  const args = [
    manifests.path,
    `--capture=${capture}`,
    '--detect-local-mode=NodeCIDR',
    `--hostname-override=${nodeName}`,
    //=${serviceCidrs.IPv4},${serviceCidrs.IPv6}`,
    `--cluster-cidr=${podCidrs.IPv4},${podCidrs.IPv6}`,
  ]
  await net.node.run('sysctl',['-qw','net.ipv6.ip_nonlocal_bind=1'])
  await net.node.run('ip',['-batch','-'],{input:['10.96.0.0/16','fd10:96::/112','192.0.2.0/24','2001:db8:e::/64','198.18.0.0/24','2001:db8:1b::/64'].map(x=>'route add local '+x+' dev lo\n').join('')})
  const start = (...flags: string[]): NodeUsher =>
    startNodeUsher(t, net.node, agents.node, { args: [...args, ...flags], path })
  return { net, agents, manifests, start }
}

/** And Usher, which serves. */
export const withUsher = async (
  t: Test,
  request: CaptureRequest,
): Promise<StageWithUsher> => {
  const stage = await makeStage(t, request)
  const usher = stage.start()
  await usher.ready()
  return { ...stage, usher }
}
