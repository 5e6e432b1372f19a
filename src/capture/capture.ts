import type { ServicePort, Vip } from '../model/snapshot.ts'
import type { Bind } from '../relay/relay.ts'

/** How one VIP is served. */
export interface VipPlacement {
  readonly vip: Vip
  /**
   * `local`: Usher listens on the VIP itself. `none`: on a proxy port that clients or
   * somebody's rules must know. `not captured`: not at all, for `reason`.
   */
  readonly capture: 'local' | 'none' | 'not captured'
  readonly binds: readonly Bind[]
  /** Why it could not be served better; '' when there is nothing to say. */
  readonly reason: string
}

/** Where the relay listens for one ServicePort. */
export interface Placement {
  readonly servicePort: ServicePort
  /** `RelayListener.id`. */
  readonly listenerId: string
  readonly vips: readonly VipPlacement[]
}

/** Says how traffic for the VIPs of ServicePorts reaches the relay. */
export interface Capture {
  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]>
}
