import type { KernelSettings, LocalDetector, ProxierKind } from '../../kernel/proxier.ts'
import { cidrsOfFamily } from '../../util/cidr.ts'
import { type IpFamily, isLoopback } from '../../util/ip.ts'
import type { ClusterFacts } from '../options.ts'
import type { KernelOptions } from '../../mode/kernel-options.ts'
import { nodeAddresses as allNodeAddresses } from '../../capture/local-addresses.ts'

export interface KernelFacts
  extends
    Pick<ClusterFacts, 'nodeName' | 'podCidrs' | 'serviceCidrs' | 'nodePortCidrs'>,
    Partial<Pick<ClusterFacts, 'nodePortCidrsOfAnyNode'>> {
  /** By default those of the host's interfaces, without what modes put on them. */
  readonly nodeAddresses?: (family: IpFamily) => readonly string[]
}

/** What the rules of a family go by now. */
export const kernelSettings = (
  mode: ProxierKind['name'],
  options: KernelOptions,
  facts: KernelFacts,
  family: IpFamily,
): KernelSettings => {
  const { podCidrs, nodePortCidrs, nodeAddresses = ofInterfaces } = facts
  const { masqueradeAll, masqueradeBit } =
    mode === 'nftables' ? options.nftables : options
  return {
    flowtableDevices: options.nftables.flowtableDevices,
    masqueradeAll,
    masqueradeBit,
    localhostNodePorts: options.localhostNodePorts,
    localDetector: localDetector(options.localPods, podCidrs(), family),
    nodePortCidrs: nodePortCidrs(family),
    nodeAddresses: nodeAddresses(family),
    nodeName: facts.nodeName,
    serviceCidrs: cidrsOfFamily(facts.serviceCidrs(), family),
  }
}

const localDetector = (
  localPods: KernelOptions['localPods'],
  podCidrs: readonly string[],
  family: IpFamily,
): LocalDetector => {
  if (localPods.by !== 'cidrs') return localPods
  const cidrs = cidrsOfFamily(podCidrs, family)
  return cidrs.length === 0 ? { by: 'none' } : { by: 'source', cidrs }
}

const ofInterfaces = (family: IpFamily): readonly string[] =>
  allNodeAddresses(family).filter(address => !isLoopback(address))
