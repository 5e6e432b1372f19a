import type { CaptureName } from '../../capture/choose-capture.ts'
import type { PortRange } from '../../capture/proxy-ports.ts'

export interface CaptureOptions {
  /** Usher's own. */
  readonly version: string
  /**
   * `auto`: the best that works here. `vips-only`: listens on VIPs that are addresses of
   * this host, and changes nothing.
   */
  readonly capture: CaptureName | 'auto' | 'vips-only'
  /** What to do about a VIP that `vips-only` can't serve; '' where there is nothing. */
  readonly captureAdvice?: string
  /** Address of the proxy ports that clients dial themselves. */
  readonly bindAddress: string
  readonly proxyPortRange: PortRange | undefined
  /** Where ClusterIPs come from, besides what ServiceCIDR objects say. */
  readonly serviceCidr?: readonly string[]
  /** --nodeport-addresses: CIDRs, `primary`, `localhost`, `all`; none for all. */
  readonly nodePortAddresses?: readonly string[]
  /** Where proxy ports are remembered; '' for nowhere. */
  readonly stateDir?: string
  /** Rules and addresses stay at the end. */
  readonly keepRules?: boolean
}

/** What a capture hears of the cluster. */
export interface CaptureFacts {
  /** CIDRs of pods that count as this node's clients. */
  readonly podCidrs: () => readonly string[]
  /** Of ServiceCIDR objects. */
  readonly serviceCidrs: () => readonly string[]
  /** Primary addresses of the Node object, one of a family at most. */
  readonly nodeAddresses: () => readonly string[]
}
