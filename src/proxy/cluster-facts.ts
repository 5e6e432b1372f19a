import { nodeAddresses } from '../capture/local-addresses.ts'
import { nodePortCidrs, nodePortCidrsOfAnyNode } from '../kernel/node-port-cidrs.ts'
import type { Registry } from '../model/registry.ts'
import type { Snapshot } from '../model/snapshot.ts'
import { cidrContains, parseCidr } from '../util/cidr.ts'
import { familyOf, type IpFamily, ipFamilies } from '../util/ip.ts'
import type { ClusterFacts, NodeParts, ProxyOptions } from './options.ts'

export const clusterFacts = (
  { nodeName, clusterCidrs, nodeCidrs }: NodeParts,
  registry: Registry,
  options: Pick<ProxyOptions, 'nodePortAddresses' | 'serviceCidr' | 'mode'>,
): ClusterFacts => {
  const nodePorts = nodePortWords(options)
  return {
    nodeName,
    podCidrs: () => [
      ...clusterCidrs,
      ...(nodeCidrs ? (registry.node()?.podCIDRs ?? []) : []),
    ],
    serviceCidrs: () => [...(options.serviceCidr ?? []), ...registry.serviceCIDRs()],
    nodePortCidrs: family => {
      const own = primaryAddresses(registry.node()?.addresses ?? [])
      return nodePortCidrs(nodePorts, own)(family)
    },
    nodePortCidrsOfAnyNode: nodePortCidrsOfAnyNode(nodePorts),
  }
}

/** As kube-proxy, which opens less in nftables mode; it stays so when another takes its place. */
const nodePortWords = ({
  nodePortAddresses = [],
  mode,
}: Pick<ProxyOptions, 'nodePortAddresses' | 'mode'>): readonly string[] =>
  nodePortAddresses.length === 0 && mode?.mode === 'nftables'
    ? ['primary']
    : nodePortAddresses

/** Addresses of this host for healthCheckNodePorts; undefined: all of the family. */
export const healthCheckAddresses = (
  { nodePortCidrs: cidrsOf }: ClusterFacts,
  family: IpFamily,
  snapshots: readonly Snapshot[],
): readonly string[] | undefined => {
  const cidrs = cidrsOf(family)?.flatMap(text => parseCidr(text) ?? [])
  return (
    cidrs &&
    nodeAddresses(family, vipsOf(snapshots)).filter(address =>
      cidrs.some(cidr => cidrContains(cidr, address)),
    )
  )
}

/** The first of each family: a Node lists its primary addresses first. */
const primaryAddresses = (addresses: readonly string[]): readonly string[] =>
  ipFamilies.flatMap(family => addresses.find(one => familyOf(one) === family) ?? [])

/** Addresses that a capture may have put on this host. */
const vipsOf = (snapshots: readonly Snapshot[]): ReadonlySet<string> =>
  new Set(
    snapshots.flatMap(({ servicePorts }) =>
      [...servicePorts.values()].flatMap(({ vips }) =>
        vips.map(({ address }) => address),
      ),
    ),
  )
