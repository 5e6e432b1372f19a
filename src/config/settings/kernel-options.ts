import type { KernelOptions } from '../../mode/kernel-options.ts'
import { parseCidr } from '../../util/cidr.ts'
import { goMilliseconds } from '../../util/duration.ts'
import type { KubeProxyConfiguration } from '../kube-proxy/configuration.ts'

interface Flags {
  /** Of kube-proxy before 1.17; 0 for none. */
  readonly conntrackMax: number
  readonly nftablesLocalhostNodeports: boolean
  readonly nftablesFlowtableDevices: readonly string[]
}

/** What the kernel modes go by. */
export const kernelOptions = (
  configuration: KubeProxyConfiguration,
  { conntrackMax, nftablesLocalhostNodeports, nftablesFlowtableDevices }: Flags,
): KernelOptions => {
  const { iptables, nftables, conntrack, ipvs } = configuration
  return {
    masqueradeAll: iptables.masqueradeAll,
    masqueradeBit: iptables.masqueradeBit,
    nftables: {
      // --masquerade-all is for all modes.
      masqueradeAll: nftables.masqueradeAll || iptables.masqueradeAll,
      masqueradeBit: nftables.masqueradeBit,
      localhostNodePorts: nftablesLocalhostNodeports,
      flowtableDevices: nftablesFlowtableDevices,
    },
    localhostNodePorts: iptables.localhostNodePorts,
    localPods: localPods(configuration),
    conntrack: {
      maxPerCore: conntrack.maxPerCore,
      min: conntrack.min,
      max: conntrack.max ?? conntrackMax,
      tcpEstablishedMs: goMilliseconds(conntrack.tcpEstablishedTimeout),
      tcpCloseWaitMs: goMilliseconds(conntrack.tcpCloseWaitTimeout),
      tcpBeLiberal: conntrack.tcpBeLiberal,
      udpMs: goMilliseconds(conntrack.udpTimeout),
      udpStreamMs: goMilliseconds(conntrack.udpStreamTimeout),
    },
    ipvs: {
      scheduler: ipvs.scheduler,
      excludeCidrs: (ipvs.excludeCIDRs ?? []).flatMap(
        text => parseCidr(text)?.text ?? [],
      ),
      strictArp: ipvs.strictARP,
      tcpTimeoutMs: goMilliseconds(ipvs.tcpTimeout),
      tcpFinTimeoutMs: goMilliseconds(ipvs.tcpFinTimeout),
      udpTimeoutMs: goMilliseconds(ipvs.udpTimeout),
    },
  }
}

const localPods = ({
  detectLocalMode,
  detectLocal,
}: KubeProxyConfiguration): KernelOptions['localPods'] => {
  if (detectLocalMode === 'BridgeInterface')
    return { by: 'bridge', name: detectLocal.bridgeInterface }
  if (detectLocalMode === 'InterfaceNamePrefix')
    return { by: 'interface prefix', prefix: detectLocal.interfaceNamePrefix }
  return { by: 'cidrs' }
}
