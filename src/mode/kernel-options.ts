import type { IpvsOptions } from '../kernel/ipvs/ipvs-deps.ts'

/** What flags and the configuration file say to the kernel modes. */
export interface KernelOptions {
  readonly masqueradeAll: boolean
  readonly masqueradeBit: number
  /** These two in nftables mode, whose section of the configuration says them anew. */
  readonly nftables: NftablesOptions
  /** Node ports on 127.0.0.1, in iptables mode. */
  readonly localhostNodePorts: boolean
  /** How pods of this node are known. `cidrs`: those of `NodeParts`. */
  readonly localPods:
    | { readonly by: 'cidrs' }
    | { readonly by: 'bridge'; readonly name: string }
    | { readonly by: 'interface prefix'; readonly prefix: string }
  readonly conntrack: ConntrackOptions
  readonly ipvs: IpvsOptions
}

export interface NftablesOptions {
  readonly masqueradeAll: boolean
  readonly masqueradeBit: number
  /** Node ports on 127.0.0.1 and ::1, by the relay. */
  readonly localhostNodePorts: boolean
  /** Between which established connections of Services are forwarded by a flowtable; none for none. */
  readonly flowtableDevices: readonly string[]
}

/** Times in milliseconds; 0 leaves the kernel's own. */
export interface ConntrackOptions {
  /** Connections for a core; 0 leaves the kernel's own limit. */
  readonly maxPerCore: number
  /** Connections at least. */
  readonly min: number
  /** Connections, whatever the cores; 0: by the other two. */
  readonly max: number
  readonly tcpEstablishedMs: number
  readonly tcpCloseWaitMs: number
  /** Packets outside their TCP window are not marked INVALID. */
  readonly tcpBeLiberal: boolean
  readonly udpMs: number
  readonly udpStreamMs: number
}
