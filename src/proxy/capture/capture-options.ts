import type { CaptureName } from '../../capture/choose-capture.ts'
import type { LocalAddresses } from '../../capture/local-addresses.ts'
import type { PortRange, ProxyPorts } from '../../capture/proxy-ports.ts'
import type { RuleObserver } from '../../capture/rule-capture.ts'
import type { Log } from '../../observe/log.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { HostSystem } from './host-system.ts'

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

/** What captures are put together from. */
export interface CaptureDeps {
  readonly options: CaptureOptions
  readonly clock: Clock
  readonly log: Log
  readonly observer: RuleObserver
  readonly system: HostSystem
  readonly facts: CaptureFacts
  readonly localAddresses: LocalAddresses
  readonly proxyPorts: ProxyPorts
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
}
