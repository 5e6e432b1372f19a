import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { AddressPort } from '../util/ip.ts'

/**
 * How a VIP is served. `nftables` and `iptables`: rules of the kernel's lead to a proxy
 * port. `local` and `listen`: Usher listens on the VIP itself, which it made an address of this host,
 * or which is one anyway. `none`: on a proxy port that clients or
 * rules of another program must know. `kernel`: a kernel mode leads it to endpoints, and Usher
 * listens nowhere. `not captured`: not at all.
 */
export type PlacementKind =
  'nftables' | 'iptables' | 'local' | 'listen' | 'none' | 'kernel' | 'not captured'

export interface VipPlacement {
  readonly vip: Vip
  readonly capture: PlacementKind
  readonly binds: readonly AddressPort[]
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

/** Tells placements apart, also those without a listener. */
export const listenerId = ({ family, key }: ServicePort): string => `${family} ${key}`

/** Says where the relay listens, and leads the traffic for VIPs there. Calls don't overlap. */
export interface Capture {
  /** Where to listen for each of them; nothing that clients would notice is done yet. */
  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]>
  /**
   * Once the relay listens where `place` said: leads traffic there. Rejects when that
   * failed, and is then to be called again.
   */
  steer(placements: readonly Placement[], snapshots: readonly Snapshot[]): Promise<void>
  /** What of the last calls could not be honoured. */
  problems(): readonly Problem[]
  /** New clients wait in silence from now on, where that is possible: before an end. */
  hold(): Promise<void>
  /** Ends what it holds; takes out what it put into the system, unless that is to stay. */
  close(): Promise<void>
}
